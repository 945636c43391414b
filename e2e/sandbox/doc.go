// Package sandbox is a whole cluster with an AWS beneath it, on one machine and without an account: a control plane, an AWS
// on the wire, the cloud controller's part, machines behind the instances, one managed node as EKS has, and slipway-scheduler
// and slipway-launcher as processes of their own that share a unix socket.
//
// Start brings all of it up, in the order of its steps; Stop takes it down in the reverse order and leaves neither process nor
// file. Everything that is written lies in one folder (package control).
//
// Goroutines: one for each part (package part), all ended by Stop. The two processes are children (package supervise):
// restarted when they exit, ended with the sandbox. A part that fails by itself shows in Failed; the sandbox is of no use then.
package sandbox
