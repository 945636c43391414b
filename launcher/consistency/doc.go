// Package consistency compares each node with what its NodeClaim was planned with, and writes the condition ConsistentStateFound. The first
// comparison is package join's, which writes it with the condition Initialized. The goroutines
// are the manager's controller's, which stop with the manager.
package consistency
