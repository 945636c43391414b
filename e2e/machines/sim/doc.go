// Package sim is machines without machines: kubelets that are simulated up to the containers. Towards the API server they
// behave as the kubelet of Kubernetes 1.36 does: registration (on an existing Node, too), Lease, status, admission with the
// kubelet's own predicates, statuses of pods, graceful deletion. What happens below (boot, network plugin, image pulls,
// processes) is a matter of time: package delay says how long, and a pod's whole future is computed when it is admitted
// (plan.go), its status at any moment from that (podstatus.go). Both are pure.
//
// The failures of pods that are bound too early are shown as well: R1, a pod that runs without its device, and R12, a pod
// whose volumes back off because the network plugin was not ready.
//
// Each machine has three goroutines: its loop (Sim.Machine), which owns all its state, its status writer and its Lease's
// heartbeat. They end with the machine's context, in the middle of whatever they do: a machine that is switched off says
// nothing more. All machines read through one set of informers (Sim.Run) and write with their own identity, a bounded
// number of requests at a time.
package sim
