// Package deleted reads what an informer's handler is given when an object is deleted.
package deleted

import "k8s.io/client-go/tools/cache"

// Object returns the object as it was last known, also where the informer missed its deletion and found it gone in a list.
func Object(obj any) any {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}
