package reclaim

import "time"

// PodEvent is a pod's binding or removal, as the watch reports it.
func (r *Reclaimer) PodEvent(node string, at time.Time) { r.events.note(node, at) }
