// Package commitments reads the Savings Plans and Reserved Instances of a ConfigMap and, if asked to, those of the AWS account, for the catalog that
// the scheduler plans with, and reports their use as metrics. What cannot be read leaves the last list in use; that of AWS is kept over a restart in another
// ConfigMap. One goroutine reads and writes ConfigMaps, another one reads AWS; both end with the context of Run.
package commitments
