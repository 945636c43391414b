// Package e2e holds the end-to-end tests: one sandbox with real parts (etcd, kube-apiserver, kube-controller-manager, slipway's
// two processes) and an AWS on the wire, observed and driven from outside alone.
package e2e
