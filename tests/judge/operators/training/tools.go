//go:build tools

// Package tools names the program that is built, so that go.mod holds what it needs.
package tools

import (
	_ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
)
