package interrupt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// A queue that is missing, or may not be read, is reported when that begins and when it ends, and asked for again within a minute.
func TestOutageIsReportedOnce(t *testing.T) {
	m, err := newMetrics(prometheus.NewRegistry(), func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	ctx := klog.NewContext(t.Context(), logger)
	o := &outage{metrics: m}
	for _, again := range []string{"the first time", "the second time"} {
		lines = nil
		for range 20 {
			if wait := o.failed(ctx, memory.ErrThrottled); wait <= 0 || wait > time.Minute {
				t.Errorf("%s: the queue is asked again after %s", again, wait)
			}
		}
		if len(lines) != 1 || !strings.Contains(lines[0], "does it exist, and may the launcher read it?") {
			t.Errorf("%s: logged %q, want the outage once", again, lines)
		}
		if up := testutil.ToFloat64(m.up); up != 0 {
			t.Errorf("%s: slipway_interruption_queue_up is %v", again, up)
		}
		o.worked(ctx)
		o.worked(ctx)
		if len(lines) != 2 || !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "can be read again") }) {
			t.Errorf("%s: logged %q, want its end once", again, lines)
		}
		if up := testutil.ToFloat64(m.up); up != 1 {
			t.Errorf("%s: slipway_interruption_queue_up is %v at its end", again, up)
		}
	}
	if n := testutil.ToFloat64(m.errors); n != 40 {
		t.Errorf("%v failures were counted, want 40", n)
	}
}
