package plugin

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
)

const (
	// gangReportAfter is how long a pod waits for its gang before that is reported.
	gangReportAfter = time.Second
	// unreachableAfter is how long the launcher is away until pods say so: it restarts within seconds, and each pod that waits would be written twice.
	unreachableAfter = 5 * time.Second
	// unreachableEvery is how often pods are reported to wait for the launcher.
	unreachableEvery = time.Minute
)

// batchReports report on the pods of the open batch what they wait for. The planner's goroutine alone uses them.
type batchReports struct {
	batch  *intake.Batch
	status *podstatus.Writer
	// socket is the launcher's.
	socket string
	// reported is when a pod of the batch was last reported to wait for the launcher.
	reported map[types.UID]time.Time
	// lacking is how many pods a pod of the batch was last reported to wait for; 0 if it was reported to wait for the launcher since.
	lacking map[types.UID]int
	// outage is the one that was reported last.
	outage outage
}

// gangs reports on the pods of gangs that wait for more than a moment what they wait for, and again when that changes: the Event is written once.
func (r *batchReports) gangs(now time.Time) {
	lacks := map[string]int{}
	for _, e := range r.batch.Entries() {
		if e.Gang.Name == "" || now.Sub(e.At) < gangReportAfter {
			continue
		}
		n, counted := lacks[e.Gang.Name]
		if !counted {
			n = r.batch.Lacking(e.Gang.Name, now)
			lacks[e.Gang.Name] = n
		}
		last, again := r.lacking[e.Pod.UID]
		if n <= 0 || n == last {
			continue
		}
		r.lacking[e.Pod.UID] = n
		note := podstatus.Note{Pod: catalog.PodRefOf(e.Pod), Message: explain.GangWaits(e.Gang.Name, n, e.Verdict)}
		if !again {
			note.EventReason = "FailedScheduling"
		}
		r.status.Report(note)
	}
}

// unreachable reports on the waiting pods that nothing can be launched: not at once, again each minute, and when the cause changes.
func (r *batchReports) unreachable(cause outage, now time.Time) {
	if cause.Skew != api.SkewMajor && now.Sub(cause.since) < unreachableAfter {
		return
	}
	changed := r.outage != cause
	r.outage = cause
	for _, e := range r.batch.Entries() {
		if !changed && now.Sub(r.reported[e.Pod.UID]) <= unreachableEvery {
			continue
		}
		r.reported[e.Pod.UID] = now
		if _, had := r.lacking[e.Pod.UID]; had {
			r.lacking[e.Pod.UID] = 0
		}
		note := podstatus.Note{Pod: catalog.PodRefOf(e.Pod), Message: cause.message(r.socket, e.Verdict)}
		if cause.Skew == api.SkewMajor {
			note.EventReason, note.Warning = "FailedScheduling", true
		}
		r.status.Report(note)
	}
}

// closed forgets the pods of a batch that has closed.
func (r *batchReports) closed(entries []intake.Entry) {
	for _, e := range entries {
		delete(r.reported, e.Pod.UID)
		delete(r.lacking, e.Pod.UID)
	}
}
