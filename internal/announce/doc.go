// Package announce writes all Events. client-go's broadcaster drops Events that arrive faster than the API server accepts them, beyond a
// thousand, which is a tenth of the Events of one wave of pods bound before the boot. Equal Events are counted together, as in client-go,
// whose correlator this package uses.
//
// Run has one goroutine per shard; all Events of one object pass through the same shard, in order. They end with the context of Run, after
// the queued Events are written, or a few seconds later.
package announce
