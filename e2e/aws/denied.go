package aws

import (
	"slices"
	"sync"
)

// Denied are the instance types that a service control policy denies. A fleet that comes to one of them first launches nothing, and its answer has that
// one error. The zero value denies none. It is safe for concurrent use.
type Denied struct {
	mu            sync.Mutex
	instanceTypes []string
}

// Set replaces the denied instance types.
func (d *Denied) Set(instanceTypes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.instanceTypes = instanceTypes
}

func (d *Denied) has(instanceType string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.instanceTypes, instanceType)
}
