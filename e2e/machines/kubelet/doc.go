// Package kubelet runs a real machine behind each instance: a kubelet of Kubernetes' own code and the distribution's
// containerd, runc and CNI plugins, in namespaces of their own (mount, pid, network, hostname), on Linux as root.
//
// A machine is one process, the machine's init (Boot), started by the mode with the sandbox's own binary. It
// reads the user data as nodeadm does, and keeps
// containerd and kubelet running. Ending it ends everything in the machine, since it is PID 1 of a pid namespace.
//
// The machine reaches exactly two things outside: the API server under the address that the user data names, and the
// registry, both on loopback. Images of every name come from the registry, which makes them up.
package kubelet
