// Package bill attributes what nodes cost to the pods that request them. It is pure: a series of observations of nodes and their pods becomes
// hourly amounts by NodePool and by workload, which are kept small, encoded as days, and shown as a table, JSON or FOCUS rows.
//
// A node's hour costs its parts (Parts). Each pod on it is charged its share of the node: the share of allocatable CPU, memory and accelerators
// that it requests, weighted by what these cost on AWS. What no pod requests is idle, and what an interrupted node costs from its interruption on
// is interruption loss; neither is charged to a pod. So a pod's charge depends on the node's price and on the pod alone. Two rules keep it so: of
// pods that request more than the node has, those that came first are charged for what they request, and pay for surplus CPU credits last.
//
// A day keeps at most MostKeys workloads. Beyond them, the cheapest workloads of the namespaces with most of them are added up as the other
// workloads of their namespace: what a namespace is charged stays exact, and no namespace's workloads hide those of another one.
package bill
