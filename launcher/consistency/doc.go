// Package consistency compares each node with what its NodeClaim was planned with, and writes the condition ConsistentStateFound. Package join
// makes the first comparison, and writes it with the condition Initialized. The goroutines are the manager's controller's, which stop with the manager.
package consistency
