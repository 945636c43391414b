// Package readable prevents one unreadable object from hiding all others of its kind.
//
// The API server validates NodePools, NodeClaims, EC2NodeClasses and CapacityBuffers against their schema, which allows some values that Karpenter's types
// cannot hold, such as consolidateAfter: 99999999999h. A client then cannot decode the whole list, and every cache stays empty. Transport
// removes such fields from the API server's answers and lists them in the annotation catalog.UnreadableAnnotation, so that the object is
// visible, is not ready, and reports why. It has no goroutines.
package readable
