// Package aws is an AWS on loopback HTTP: the parts of EC2, IAM, STS, SQS, SSM, Pricing and EKS that a launcher of nodes
// needs, over the wire protocols of the unmodified SDK and the aws command line (AWS_ENDPOINT_URL selects it). It imitates
// AWS's failures: capacity errors per pool, throttling, outages, eventual consistency, slow boots, instances that never
// join, and spot interruptions as EventBridge messages through SQS. The methods of Server control them, as does the HTTP API
// below /_sandbox/ (see Client).
//
// AWS's own delays pass on the clock of the Config, so that --speed shortens them. Durations that the caller gives (ICE,
// Throttle, Down, an SQS long poll) are in real time. State is lost with the process. Requests must be signed, by any key.
//
// Run starts the HTTP server and the goroutine of the agenda, which boots, runs and ends instances. Watch starts one
// goroutine for its reader. All end with their contexts. State is in small stores, each with its own lock. A store calls no
// other while it holds its lock.
package aws
