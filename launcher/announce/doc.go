// Package announce writes Events, all of them: client-go's broadcaster drops what comes faster than the API server takes it,
// beyond a thousand, which is a tenth of what one wave of pre-bound pods has to tell. What is equal is counted together, as
// client-go does, whose correlator this uses.
//
// Run has one goroutine per shard; all Events of one object go through the same one, in order. They end with the context of
// Run, after what is still queued was written, or a few seconds later.
package announce
