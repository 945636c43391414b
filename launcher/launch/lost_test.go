package launch_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// lostCall returns a claim of a call that an earlier process made, or was about to make.
func (w *world) lostCall(name, id string) *karpv1.NodeClaim {
	c := w.newClaim(name)
	c.Annotations[catalog.LaunchAnnotation] = id
	w.create(c)
	return c
}

// launchedBy adds an instance of a call.
func (w *world) launchedBy(id string) string {
	return w.ec2.Put(cloud.Instance{
		InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "on-demand", PrivateDNSName: "of-" + id, Tags: map[string]string{catalog.LaunchAnnotation: id},
	})
}

// After a crash with many calls in flight, of which half were never made, the searches share lists of NodeClaims: each is tens of megabytes.
func TestLostLaunchesShareLists(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		const calls = 40
		want := map[string]string{}
		var claims []*karpv1.NodeClaim
		for i := range calls {
			id, name := fmt.Sprintf("call-%d", i), fmt.Sprintf("default-%d", i)
			claims = append(claims, w.lostCall(name, id))
			if i%2 == 0 {
				w.launchedBy(id)
			}
			want[name] = "m7g.large us-east-1a"
		}
		var lists, running, atOnce atomic.Int64
		w.listed = func() {
			lists.Add(1)
			atOnce.Store(max(atOnce.Load(), running.Add(1)))
			time.Sleep(500 * time.Millisecond)
			running.Add(-1)
		}
		w.subject.Enqueue(claims...)
		w.settle(time.Minute)
		w.listed = nil
		w.want(want)
		w.owners()
		// At most two for the first look, and two for each half of the groups half a minute later.
		if n := lists.Load(); n > 6 || atOnce.Load() > 1 {
			t.Errorf("%d lists of NodeClaims for %d lost calls, up to %d at once", n, calls, atOnce.Load())
		}
	})
}

// The lead is lost while a call is made, or before it is repeated. Another leader assigns one of its instances, and this process leads again: it
// looks for what is left, as it would for another process's call.
func TestLeadAgainAfterAnother(t *testing.T) {
	for _, during := range []bool{true, false} {
		t.Run(fmt.Sprintf("during the call %t", during), func(t *testing.T) {
			inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
				t.Helper()
				w.at("after", func(what string) error {
					if what != "launch" || w.ec2.Calls(memory.Launch) > 1 {
						return nil
					}
					if during {
						w.lead(false)
					}
					return errors.New("connection reset")
				})
				w.record("default-a", "default-b", "default-c")
				w.settle(50 * time.Millisecond)
				w.lead(false)
				first := w.claims()[0]
				first.Status.ProviderID = "aws:///us-east-1a/" + w.ec2.Live()[0]
				if err := w.api.Status().Update(context.Background(), &first); err != nil {
					t.Fatal(err)
				}
				w.lead(true)
				w.settle(10 * time.Second)
				w.wantLaunches(1)
				w.owners()
				if n := len(w.ec2.Live()); n != 3 {
					t.Errorf("%d instances are left of 3", n)
				}
			})
		})
	}
}
