// Package sandbox runs a whole cluster with an AWS on one machine, without an account: a control plane, an AWS on the wire,
// a cloud controller, machines for the instances, one managed node as in EKS, and slipway-scheduler and slipway-launcher as
// processes that share a unix socket.
//
// Start starts all parts, in the order of its steps. Stop ends them in the reverse order and leaves neither processes nor
// files. All files are in one folder (package control).
//
// Goroutines: one for each part (package part), all ended by Stop. The two processes are children (package supervise): they
// are restarted when they exit, and ended with the sandbox. A part that fails by itself closes Failed. The sandbox is then
// unusable.
package sandbox
