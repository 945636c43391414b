// Package launch turns recorded NodeClaims into instances: equal claims share one CreateFleet call, every attempt has an id
// that is written down before the call, and a call whose answer was lost is never repeated, its instances are looked for.
//
// Launcher.Run owns the set of claims under way in one goroutine; each group of equal claims is worked on by one more, until
// every claim of it has an instance or has failed. All of them stop with Run's context.
package launch
