// Package readable keeps one object that cannot be read from hiding all others of its kind.
//
// The API server checks NodePools, NodeClaims and EC2NodeClasses against their schema, which lets some values through that
// Karpenter's types cannot hold, such as consolidateAfter: 99999999999h. A client fails to read a whole list for one of them,
// and every cache stays empty. Transport takes such fields out of the API server's answers and names them in the annotation
// catalog.UnreadableAnnotation, so that the object shows up, is not ready, and says why. It has no goroutines.
package readable
