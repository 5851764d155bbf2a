#!/usr/bin/env bash
# Build the control plane that `make e2e-kube` runs against, once, from published modules, outside the tree.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$here/go.mod")
target=${STRATO_KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/strato-kube/$version}
if [ -x "$target/kube-apiserver" ] && [ -x "$target/kube-controller-manager" ] && [ -x "$target/etcd" ]; then
    exit 0
fi
echo "building kube-apiserver, kube-controller-manager ($version) and etcd into $target (a few minutes, once)"
mkdir -p "$target"
cd "$here"
minor=${version#v1.}
flags="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}"
go build -ldflags "$flags" -o "$target/" k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager
go build -ldflags "-s -w" -o "$target/etcd" go.etcd.io/etcd/server/v3
