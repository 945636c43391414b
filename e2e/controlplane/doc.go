// Package controlplane runs a real Kubernetes control plane inside the calling process: etcd, kube-apiserver and
// kube-controller-manager, linked in from their own modules, with Karpenter's CRDs and slipway's RBAC rules applied.
//
// It owns a temporary folder with everything that touches a disk: etcd's data and sockets, keys, certificates, logs.
// Stop ends the servers and removes the folder. All listen on loopback (etcd: on a unix socket in that folder).
//
// Kubernetes keeps feature gates, klog's output and configz in globals of the process. So one control plane runs in a
// process at a time; another one may be started after Stop.
//
// It imports nothing of plugin/ or launcher/. Goroutines: one per server (etcd's own, the API server's Run, the
// controller manager's Run), all ended by Stop. What Kubernetes itself leaves running (informers of packages that know no
// stop, klog's flush) is not ours to end.
package controlplane
