package health

import (
	"fmt"
	"slices"
	"time"
)

const (
	// rejectionsApart is the period within which rejections count together, and offFor how long pre-binding stays disabled.
	rejectionsApart, offFor = time.Hour, time.Hour
	// nodesRejecting is how many nodes must reject pods before pre-binding is disabled: a single one may be an accident.
	nodesRejecting = 2
)

// rejection is a node whose kubelet rejected pods.
type rejection struct {
	nodeClaim string
	at        time.Time
	why       string
}

// rejections are the nodes of one NodePool whose kubelets recently rejected pods.
type rejections []rejection

// with adds a node; a node counts once, however many pods it rejected.
func (r rejections) with(next rejection) rejections {
	out := slices.DeleteFunc(slices.Clone(r), func(old rejection) bool {
		return old.nodeClaim == next.nodeClaim || next.at.Sub(old.at) > rejectionsApart
	})
	return append(out, next)
}

// switchOff returns why pre-binding is disabled; "" if it is not.
func (r rejections) switchOff() string {
	if len(r) < nodesRejecting {
		return ""
	}
	newest := r[len(r)-1]
	return fmt.Sprintf("kubelets of %d nodes rejected pods within an hour, the last on NodeClaim %s: %s; the scheduler alone binds until %s",
		len(r), newest.nodeClaim, newest.why, newest.at.Add(offFor).UTC().Format(time.RFC3339))
}
