// Package controlplane runs a real Kubernetes control plane inside the calling process: etcd, kube-apiserver and
// kube-controller-manager, linked from their own modules, with Karpenter's CRDs and slipway's RBAC rules applied.
//
// It owns a temporary folder with all files: etcd's data and sockets, keys, certificates, logs. Stop ends the servers and
// removes the folder. All servers listen on loopback, except etcd, which listens on a unix socket in the folder.
//
// Kubernetes keeps feature gates, klog's output and configz in globals of the process. So a process runs one control plane
// at a time. Another one may be started after Stop.
//
// It imports nothing of plugin/ or launcher/. Goroutines: one per server (etcd's own, the API server's Run, the controller
// manager's Run), all ended by Stop. Goroutines that Kubernetes itself never stops (some informers, klog's flush) keep
// running.
package controlplane
