package interrupt

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/klog/v2"
)

// outage is a period in which the queue cannot be read: it does not exist, access is denied, or AWS does not answer. Its begin and its end
// are logged.
type outage struct {
	metrics *metrics
	since   time.Time
	backoff time.Duration
}

// failed records a failed call and returns how long to wait.
func (o *outage) failed(ctx context.Context, err error) time.Duration {
	o.metrics.errors.Inc()
	log := klog.FromContext(ctx)
	if o.since.IsZero() {
		o.since, o.backoff = time.Now(), minBackoff
		log.Error(err, "Could not read the interruption queue: interruptions are not received until it works; does it exist, and may the launcher read it?")
	} else {
		log.V(4).Info("Could not read the interruption queue again", "err", err, "since", o.since)
	}
	o.metrics.up.Set(0)
	wait := o.backoff + rand.N(o.backoff)
	o.backoff = min(2*o.backoff, maxBackoff)
	return wait
}

// worked records a call that succeeded.
func (o *outage) worked(ctx context.Context) {
	o.metrics.up.Set(1)
	if !o.since.IsZero() {
		klog.FromContext(ctx).Info("The interruption queue can be read again", "after", time.Since(o.since).Round(time.Second))
	}
	o.since = time.Time{}
}
