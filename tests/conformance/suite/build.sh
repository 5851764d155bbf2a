#!/usr/bin/env bash
# Build the conformance suite, kubectl and the programs of its test images, once, from published modules, outside the tree.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$here/go.mod")
target=${STRATO_KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/strato-kube/$version}
mkdir -p "$target"
cd "$here"
minor=${version#v1.}
flags="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}"
export CGO_ENABLED=0

program() { # NAME COMMAND...: build it unless it is there; half a program is never left
    [ -x "$target/$1" ] && return 0
    echo "building $1 ($version) into $target"
    "${@:2}" -ldflags "$flags" -o "$target/.$1.new" "$(package "$1")"
    mv "$target/.$1.new" "$target/$1"
}
package() {
    case $1 in
        kubectl) echo k8s.io/kubernetes/cmd/kubectl ;;
        agnhost) echo k8s.io/kubernetes/test/images/agnhost ;;
        nnp) echo k8s.io/kubernetes/test/images/nonewprivs ;;
        e2e.test) echo k8s.io/kubernetes/test/e2e ;;
    esac
}
program agnhost go build
program nnp go build
program kubectl go build
program e2e.test go test -c -vet=off
ln -sfn "$(go list -f '{{.Dir}}' -m k8s.io/kubernetes)" "$target/source"  # known once it is downloaded
