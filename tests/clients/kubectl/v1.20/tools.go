//go:build tools

// Package tools names the program that is built, for go.mod to keep what it needs.
package tools

import _ "k8s.io/kubernetes/cmd/kubectl"
