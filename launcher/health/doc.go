// Package health knows of each NodePool whether its nodes join, and whether their kubelets run what is bound to them.
//
// Nodes that do not join cost money and help nobody. After repeated failures a NodePool is held: nothing is launched for it for a
// while that doubles with each failed try, and then one node at a time, until one joins. NodeRegistrationHealthy of the NodePool
// is what Karpenter's is: False once half of the last four nodes did not join. A NodePool whose kubelets reject pods that were
// bound ahead of the scheduler loses pre-binding for an hour, which its condition PreBinding says.
//
// Breaker is pure. Health keeps one for each NodePool, writes the conditions, and has one goroutine (Run), which tells when a hold
// ends. What it remembers is lost in a restart: a NodePool that was unhealthy is then tried with one node at once.
package health
