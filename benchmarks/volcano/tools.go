//go:build tools

// Package tools names the programs that are built, so that go.mod holds what they need.
package tools

import (
	_ "volcano.sh/volcano/cmd/controller-manager"
	_ "volcano.sh/volcano/cmd/scheduler"
)
