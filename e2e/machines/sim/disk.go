package sim

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// disk is what stays of a machine while it is switched off: the times at which each image is on it. It is safe for concurrent use, since the machine
// may be on again before its former kubelet has ended.
type disk struct {
	mu     sync.Mutex
	images map[string]time.Time
}

func newDisk() *disk { return &disk{images: map[string]time.Time{}} }

// pulled notes that an image is there at a time, unless it is earlier, and returns when it is.
func (d *disk) pulled(image string, at time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if there, ok := d.images[image]; ok && there.Before(at) {
		return there
	}
	d.images[image] = at
	return at
}

// has reports whether an image is there at now.
func (d *disk) has(image string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	there, ok := d.images[image]
	return ok && !now.Before(there)
}

// cut drops what was not there yet when the machine was switched off.
func (d *disk) cut(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.images, func(_ string, there time.Time) bool { return now.Before(there) })
}

// list returns the names of those that are there at now, sorted, at most that many.
func (d *disk) list(now time.Time, most int) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.images)) {
		if len(out) < most && !now.Before(d.images[name]) {
			out = append(out, name)
		}
	}
	return out
}
