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
