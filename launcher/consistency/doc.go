// Package consistency compares each node with what its NodeClaim was planned with, and writes the condition ConsistentStateFound. Its goroutines
// are the manager's controller's, which stop with the manager.
package consistency
