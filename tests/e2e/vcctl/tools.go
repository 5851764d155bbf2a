//go:build tools

// Package tools names the programs that are built, so that go.mod holds what they need.
package tools

import (
	_ "volcano.sh/volcano/cmd/cli"
	_ "volcano.sh/volcano/cmd/cli/vcancel"
	_ "volcano.sh/volcano/cmd/cli/vjobs"
	_ "volcano.sh/volcano/cmd/cli/vqueues"
	_ "volcano.sh/volcano/cmd/cli/vresume"
	_ "volcano.sh/volcano/cmd/cli/vsub"
	_ "volcano.sh/volcano/cmd/cli/vsuspend"
)
