// Package health tracks for each NodePool whether its nodes join, and whether their kubelets accept the pods that the launcher binds.
//
// Nodes that do not join cost money without use. After repeated failures a NodePool is held: nothing is launched for it for a period that
// doubles with each failed try, and then one node at a time, until one joins. NodeRegistrationHealthy of the NodePool is as in Karpenter:
// False once half of the last four nodes did not join. If a NodePool's kubelets reject pods that the launcher bound, the launcher binds no
// pods there for an hour, which the condition PreBinding shows.
//
// Breaker is pure. Health keeps one for each NodePool, writes the conditions, and has one goroutine (Run), which signals the end of a hold.
// A restart loses the history: an unhealthy NodePool is then tried with one node at once.
package health
