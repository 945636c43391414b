// Package aws is an AWS on loopback HTTP: EC2, IAM, STS, SQS, SSM, Pricing and EKS, as far as a launcher of nodes needs
// them, over the wire protocols that the unmodified SDK and the aws command line speak (AWS_ENDPOINT_URL moves them here).
// It does to its callers what AWS does: capacity errors per pool, throttling, outages, eventual consistency, slow boots,
// instances that never join, spot interruptions delivered as EventBridge messages through SQS. What it does can be told to
// it, in Go by the methods of Server and over HTTP below /_sandbox/ (see Client).
//
// Whatever AWS takes its time for passes on the clock of the Config, so that --speed makes it faster; what a caller asks
// for by a duration of its own (ICE, Throttle, Down, an SQS long poll) lasts as long as it says. Nothing outlives the
// process. Signatures have to be there; whose they are does not matter.
//
// Run starts the HTTP server and the goroutine of the agenda, which makes instances boot, run and go; Watch starts one
// goroutine for its reader. All end with their contexts. State is in small stores, each with a lock of its own: none calls
// another while it holds it.
package aws
