// Package foreign puts a sandbox on an AWS that is not its own: LocalStack, moto, or any other endpoint that the SDK can
// talk to. Prepare makes there what a cluster needs and is missing; Watch shows the instances that are there as machines
// see them, found by asking again and again, since nobody else tells.
//
// Watch starts one goroutine, which ends with its context.
package foreign
