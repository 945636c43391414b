// Package memory is an in-memory cloud.Cloud for tests. It follows EC2's states and its eventual consistency by time.Now, so it runs in a
// testing/synctest bubble as well as outside of one, and it starts no goroutine. Its methods simulate AWS's failures: capacity per offering,
// failing and throttled calls, classes that cannot be resolved, late visibility, interruptions.
//
// It leaves out what the launcher cannot observe: launch templates, networks, images, the meaning of selectors.
package memory
