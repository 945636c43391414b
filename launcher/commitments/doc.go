// Package commitments reads the Savings Plans and Reserved Instances of a ConfigMap, for the catalog that the scheduler plans with, and reports
// their use as metrics. A ConfigMap that cannot be read leaves the last one in use. One goroutine reads; it ends with the context of Run.
package commitments
