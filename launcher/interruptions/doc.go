// Package interruptions learns how often EC2 interrupts the cluster's spot nodes, by package interruption, keeps what it learned in a ConfigMap, and
// prices it: Offers are those of the cloud with the loss that is expected for each pod. One goroutine looks at the NodeClaims every ten seconds while
// the launcher leads, and writes every ten minutes and after each interruption; it ends with the context of Run.
package interruptions
