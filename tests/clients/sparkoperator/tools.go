//go:build tools

// Package tools names the program that is built from this module.
package tools

import _ "github.com/kubeflow/spark-operator/v2/cmd/operator"
