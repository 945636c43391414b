// Package launch launches instances for recorded NodeClaims. Equal claims share one CreateFleet call. Every attempt has an ID that is
// recorded before the call. A call whose answer was lost is never repeated: the package looks for its instances.
//
// Launcher.Run owns the set of claims being launched in one goroutine. Each group of equal claims has its own goroutine until every claim
// has an instance or has failed. All of them stop with Run's context.
package launch
