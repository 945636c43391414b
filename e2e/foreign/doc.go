// Package foreign runs a sandbox on an AWS that is not its own: LocalStack, moto, or any other endpoint of the SDK. Prepare
// creates what a cluster needs and the AWS lacks. Watch polls the AWS's instances, since it sends no notifications, and
// delivers them as machines see them.
//
// Watch starts one goroutine, which ends with its context.
package foreign
