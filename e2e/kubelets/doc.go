// Package kubelets has the end-to-end tests that need real kubelets: `make e2e-kubelet`, on Linux as root with containerd,
// runc and the CNI plugins of the distribution. It has no code of its own.
package kubelets
