package launch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
func (w *world) launchedBy(id string) {
	w.ec2.Put(cloud.Instance{
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

// The process was away for longer than a claim may take. The instance that its call launched is assigned; the claim without one is too late.
func TestFoundAfterTheLaunchTimeout(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.SetCapacity(memory.Offering{}, 1)
		w.at("after", always("launch", errCrash))
		w.record("default-a", "default-b")
		w.settle(100 * time.Millisecond)
		w.stop()
		w.settle(10 * time.Minute)
		w.crash()
		w.settle(10 * time.Second)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "going"})
		w.wantLaunches(1)
		w.owners()
		if len(w.failed) != 1 || !strings.HasPrefix(w.failed[0], "default-b LaunchTimeout: ") {
			t.Errorf("failed %v", w.failed)
		}
	})
}

// EC2 shows the instances of a lost call one by one: each is assigned at once.
func TestInstancesThatAreShownOneByOne(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		claims := []*karpv1.NodeClaim{w.lostCall("default-a", "call"), w.lostCall("default-b", "call")}
		w.launchedBy("call")
		w.subject.Enqueue(claims...)
		w.settle(5 * time.Second)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "no instance"})
		w.launchedBy("call")
		w.settle(5 * time.Second)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.large us-east-1a"})
		w.wantLaunches(0)
		w.owners()
	})
}

// EC2 launches fewer instances than asked for, and the record of one cannot be written at first: there is nothing more to look for, so that the
// rest is asked for again at once.
func TestPartialFulfilmentAndAFailedWrite(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.SetCapacity(memory.Offering{}, 1)
		w.answer = func(call int, out cloud.LaunchOutput) cloud.LaunchOutput {
			if call == 1 {
				w.ec2.SetCapacity(memory.Offering{}, 9)
				w.ec2.ClearCapacity(memory.Offering{InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "on-demand"})
				out.Failures = nil
			}
			return out
		}
		w.at("before", once("status default-a", errors.New("the API server is busy")))
		w.record("default-a", "default-b")
		w.settle(5 * time.Second)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.large us-east-1a"})
		w.wantLaunches(2)
		w.owners()
	})
}

// A claim that has an instance by the time at which another one is to be recorded keeps it, whoever gave it to the claim.
func TestClaimThatHasAnotherInstance(t *testing.T) {
	for _, write := range []string{"patch default-a", "status default-a"} {
		t.Run(write, func(t *testing.T) {
			inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
				t.Helper()
				other := "aws:///us-east-1b/" + w.ec2.Put(cloud.Instance{Zone: "us-east-1b"})
				var given atomic.Bool
				w.at("before", func(what string) error {
					if what != write || given.Swap(true) {
						return nil
					}
					first := w.claims()[0]
					first.Status.ProviderID = other
					return w.api.Status().Update(context.Background(), &first)
				})
				w.record("default-a", "default-b")
				w.settle(time.Minute)
				claims := w.claims()
				if got := claims[0].Status.ProviderID; got != other {
					t.Errorf("default-a has %s, want %s", got, other)
				}
				if write == "patch default-a" && claims[0].Labels[corev1.LabelTopologyZone] != "" {
					t.Errorf("default-a has the labels of an instance that it has not: %v", claims[0].Labels)
				}
				if got := claims[1].Status.ProviderID; got == "" || got == other {
					t.Errorf("default-b has %q", got)
				}
				w.wantLaunches(1)
				if len(w.failed) > 0 {
					t.Errorf("failed: %v", w.failed)
				}
			})
		})
	}
}

// Another process led in between, twice: it makes the call just before it loses the lead for the second time. This process, which looked for the
// call's instances before, looks again as long as EC2 may take to show them.
func TestLeadAgainAfterACall(t *testing.T) {
	inWorld(t, memory.Config{VisibleAfter: 3 * time.Second}, func(t *testing.T, w *world) {
		t.Helper()
		w.subject.Enqueue(w.lostCall("default-a", "call"))
		w.settle(5 * time.Second)
		w.lead(false)
		w.settle(time.Minute)
		w.launchedBy("call")
		w.lead(true)
		w.settle(10 * time.Second)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a"})
		w.wantLaunches(0)
		w.owners()
	})
}
