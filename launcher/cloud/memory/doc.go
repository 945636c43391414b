// Package memory is a cloud.Cloud in memory, for tests of whatever stands on one. It follows EC2's states and its
// eventual consistency by the clock of time.Now, so it runs in a testing/synctest bubble as well as outside of one, and
// it starts no goroutine. What AWS does to people is set by its methods: capacity per offering, failing and throttled
// calls, classes that cannot be resolved, late visibility, interruptions.
//
// It leaves out what the launcher cannot see: launch templates, networks, images, the meaning of selectors.
package memory
