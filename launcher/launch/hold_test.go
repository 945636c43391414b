package launch_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// record creates equal claims and hands them over together, as the server does.
func (w *world) record(names ...string) {
	w.t.Helper()
	stamp, release := w.subject.Hold(names)
	defer release()
	w.recordWith(stamp, names...)
}

// recordBare creates equal claims without the ID of their launch: those of groups, and those that users create.
func (w *world) recordBare(names ...string) {
	w.t.Helper()
	w.recordWith(func(*karpv1.NodeClaim) {}, names...)
}

func (w *world) recordWith(stamp func(*karpv1.NodeClaim), names ...string) {
	w.t.Helper()
	var claims []*karpv1.NodeClaim
	for _, name := range names {
		c := w.newClaim(name)
		stamp(c)
		w.create(c)
		claims = append(claims, c)
	}
	w.subject.Enqueue(claims...)
}

// Claims that are recorded together are launched together, although others hand each over as soon as they see it.
func TestHeldClaims(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		_, release := w.subject.Hold([]string{"default-a", "default-b"})
		_, again := w.subject.Hold([]string{"default-b"})
		w.recordBare("default-a")
		w.settle(time.Second)
		w.recordBare("default-b")
		w.recordBare("default-c")
		w.settle(time.Second)
		w.wantLaunches(1)
		again()
		release()
		release()
		w.settle(time.Second)
		w.wantLaunches(2)
		w.owners()
	})
}

// Claims that are recorded with the ID of their launch are not written before its call: the IDs are those of the calls.
func TestRecordedWithTheirLaunch(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		var mu sync.Mutex
		var did []string
		w.at("before", func(what string) error {
			mu.Lock()
			defer mu.Unlock()
			did = append(did, what)
			return nil
		})
		w.record("default-a", "default-b")
		w.settle(time.Second)
		if i := slices.Index(did, "launch"); i < 0 || slices.ContainsFunc(did[:i], func(s string) bool { return strings.HasPrefix(s, "patch") }) {
			t.Errorf("before the call: %v", did)
		}
		w.wantLaunches(1)
		for _, c := range w.claims() {
			if got := c.Annotations[catalog.LaunchAnnotation]; got != w.tokens[0] {
				t.Errorf("NodeClaim %s has launch ID %q, the call had %q", c.Name, got, w.tokens[0])
			}
		}
		w.owners()
	})
}

// A claim whose creation the API server did not answer is found later. It is launched at once, as long as it is known that its call was not made:
// not after another claim's call with its ID, and not for ever. Then the launcher looks for instances first.
func TestFoundAfterItsBatch(t *testing.T) {
	for _, test := range []struct {
		name string
		// answered is recorded with it, and launched; empty for none.
		answered string
		// after is when it is found, and looks how long the launcher looks for instances then.
		after, looks time.Duration
	}{
		{"without a call", "", 5 * time.Second, 0},
		{"after the call of an equal claim", "default-a", 5 * time.Second, 29 * time.Second},
		{"long after", "", 2 * time.Minute, 29 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
				t.Helper()
				stamp, release := w.subject.Hold([]string{"default-a", "default-b"})
				launches := 1
				if test.answered != "" {
					w.recordWith(stamp, test.answered)
					launches++
				}
				late := w.newClaim("default-b")
				stamp(late)
				w.create(late)
				release()
				w.settle(test.after)
				w.wantLaunches(launches - 1)
				w.subject.Enqueue(late)
				if test.looks > 0 {
					w.settle(test.looks)
					w.wantLaunches(launches - 1)
				}
				w.settle(4 * time.Second)
				w.wantLaunches(launches)
				w.owners()
			})
		})
	}
}

// A thousand claims are the most of one call, and so of one ID.
func TestLaunchIDsOfManyClaims(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		stamp, release := w.subject.Hold(nil)
		defer release()
		claims := map[string]int{}
		for i := range 2100 {
			c := w.newClaim(fmt.Sprintf("default-%d", i%7))
			if i%3 == 0 {
				c.Labels["example.com/other"] = "group"
			}
			stamp(c)
			claims[c.Annotations[catalog.LaunchAnnotation]]++
		}
		counts := slices.Sorted(maps.Values(claims))
		if want := []int{400, 700, 1000}; !slices.Equal(counts, want) {
			t.Errorf("claims by ID %v, want %v", counts, want)
		}
	})
}
