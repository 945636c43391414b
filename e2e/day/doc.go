// Package day replays a generated day of a cluster in minutes: Deployments scale up and down with the hours, Jobs come and go, spot
// prices drift, spot instances are interrupted. It is a discrete-event simulation with a clock of its own, a minute a step, over the
// code that decides in a cluster: plugin/simulate plans and verifies what is launched, plugin/consolidate decides what is given up.
// kube-scheduler's own filters and scores bind pods to nodes that have room when they come.
// What the machines do is taken as known: a node is ready a minute after its launch, and gone two minutes after it was given up.
//
// The same day is replayed once for each Policy, so that their bills, evictions and waits can be compared; `make day` prints them.
//
// Two keep books of each replay: the record of slipway's bill (launcher/billing, every ten seconds), and AWS's meter (e2e/aws/meter), which gets the same
// histories of instances. With Commit and CommitFamilies the day has commitments, and its bill stands beside those of two linear programs that know
// them: one buys other offerings for the nodes that the replay ran, the other one packs all pods from scratch.
//
// It has no goroutines of its own.
package day
