#!/bin/sh
# Build Argo Workflows' controller and executor in this folder, which is a copy outside the tree.
# The published module lacks signal_linux.go, which the executor needs; its file for Darwin says the same in POSIX' words.
set -eu
module=github.com/argoproj/argo-workflows/v3
cp -r "$(go mod download -json $module | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" module
chmod -R u+w module
signals=module/workflow/executor/osspecific
[ -e $signals/signal_linux.go ] || cp $signals/signal_darwin.go $signals/signal_linux.go
go mod edit -replace=$module=./module
CGO_ENABLED=0 go build -mod=mod -ldflags '-s -w' -o controller/ $module/cmd/workflow-controller
CGO_ENABLED=0 go build -mod=mod -ldflags '-s -w' -o image/bin/ $module/cmd/argoexec
rm -r module
