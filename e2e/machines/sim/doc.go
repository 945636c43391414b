// Package sim simulates machines: kubelets without containers. Towards the API server they behave as the kubelet of
// Kubernetes 1.36: registration (also with an existing Node), Lease, status, admission with the kubelet's own predicates,
// statuses of pods, graceful deletion. What happens on the machine (boot, network plugin, image pulls, processes) only takes
// time, which package delay determines. A pod's whole future is computed when it is admitted (plan.go), and its status at
// any moment from that (podstatus.go). Both are pure.
//
// The failures of pods that are bound too early are simulated as well: R1, a pod that runs without its device, and R12, a
// pod whose volumes back off because the network plugin was not ready.
//
// Each machine has three goroutines: its loop (Sim.Machine), which owns all its state, its status writer and its Lease's
// heartbeat. They end with the machine's context, without completing what they do, as when a machine is switched off. All
// machines read through one set of informers (Sim.Run). They write with their own identity, and the number of concurrent
// requests is limited.
//
// Light machines (Config.Light) are for clusters of thousands of nodes. They have no goroutine: a few workers take each machine that has
// something to do from one queue (light.go). Node, Lease, admission, delays, hooks and grace periods are as above. They report less: the
// first status of a pod is that it runs, images and containers have no Events unless the pod asks for them, a Node lists no images, and the Lease is
// renewed every minute instead of every 10 s.
package sim
