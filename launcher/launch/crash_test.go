package launch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/collect"
)

// A process may die before or after anything it does. Whatever it was, the next one ends with one instance per claim and no
// other, once EC2 has had its time. Everything is written for two claims, so that each half-done state occurs.
func TestCrashBetweenAnyTwoSteps(t *testing.T) {
	steps := []string{"patch default-a", "patch default-b", "launch", "status default-a", "status default-b"}
	recorded := map[string]func(w *world, names ...string){"with the launch": (*world).record, "bare": (*world).recordBare}
	for how, record := range recorded {
		for _, when := range []string{"before", "after"} {
			for _, step := range steps {
				t.Run(how+" "+when+" "+step, func(t *testing.T) {
					inWorld(t, memory.Config{VisibleAfter: 3 * time.Second}, func(t *testing.T, w *world) {
						t.Helper()
						w.at(when, always(step, errCrash))
						record(w, "default-a", "default-b")
						w.settle(10 * time.Second)
						w.crash()
						w.settle(time.Minute)
						w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.large us-east-1a"})
						w.owners()
					})
				})
			}
		}
	}
}

// A write that is cut off, by the loss of the lead or by an API server that does not answer in time, is not taken for done.
func TestWriteThatIsCutOff(t *testing.T) {
	for _, cut := range []error{context.Canceled, context.DeadlineExceeded} {
		for _, step := range []string{"patch default-a", "status default-a", "delete default-a"} {
			t.Run(cut.Error()+" "+step, func(t *testing.T) {
				inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
					t.Helper()
					want := "m7g.large us-east-1a"
					if step == "delete default-a" {
						w.ec2.SetCapacity(memory.Offering{}, 0)
						want = "going"
					}
					w.at("before", once(step, cut))
					w.record("default-a")
					w.settle(time.Minute)
					w.want(map[string]string{"default-a": want})
					w.owners()
				})
			})
		}
	}
}

// The instance is recorded and the answer is lost: the later write that the launch failed does not undo the record.
func TestAnswerToTheRecordIsLost(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("after", once("status default-a", context.DeadlineExceeded))
		w.record("default-a")
		w.settle(time.Minute)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a"})
		w.wantLaunches(1)
		for _, c := range w.claims() {
			if launched := c.StatusConditions().Get(karpv1.ConditionTypeLaunched); !launched.IsTrue() {
				t.Errorf("NodeClaim %s has instance %s and condition %+v", c.Name, c.Status.ProviderID, launched)
			}
		}
		w.owners()
	})
}

// A crash between the stamp and the call: there is no instance, which takes 30 seconds to establish.
func TestCrashBeforeTheCall(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("before", always("launch", errCrash))
		w.record("default-a", "default-b")
		w.settle(time.Second)
		w.crash()
		w.settle(29 * time.Second)
		w.wantLaunches(0)
		w.settle(5 * time.Second)
		w.wantLaunches(1)
		if n := w.attempts(); n != 2 {
			t.Errorf("%d ids: %v", n, w.tokens)
		}
		w.owners()
	})
}

// A crash between the call and its answer: the instances are found by the id and dealt in the order of names, at once.
func TestCrashAfterTheCall(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("after", always("launch", errCrash))
		w.record("default-c", "default-a", "default-b")
		w.settle(100 * time.Millisecond)
		w.crash()
		w.settle(time.Second)
		w.wantLaunches(1)
		w.owners()
		ids := w.ec2.Live()
		for i, c := range w.claims() { // By name.
			if want := "aws:///us-east-1a/" + ids[i]; c.Status.ProviderID != want {
				t.Errorf("%s has %s, want %s", c.Name, c.Status.ProviderID, want)
			}
			if got := c.Annotations[awsv1.AnnotationInstanceProfile]; got != "nodes" {
				t.Errorf("%s has the instance profile %q, want nodes", c.Name, got)
			}
		}
	})
}

// One of a call's two claims is deleted while no process runs: its instance is terminated too.
func TestSurplusAfterACrash(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("after", always("launch", errCrash))
		w.record("default-a", "default-b")
		w.settle(100 * time.Millisecond)
		w.stop()
		w.at("", nil)
		claims := w.claims()
		if err := w.api.Delete(context.Background(), &claims[0]); err != nil {
			t.Fatal(err)
		}
		w.crash()
		w.settle(time.Second)
		w.wantLaunches(1)
		w.want(map[string]string{"default-a": "going", "default-b": "m7g.large us-east-1a"})
		w.owners()
	})
}

// The ID of a call is written on all its claims at once, and a write of a crashed process may arrive after the next process has searched.
// That claim is launched as well, whatever happened to the others.
func TestStampThatArrivesLate(t *testing.T) {
	for _, first := range []string{"is launched", "is deleted"} {
		t.Run("when the first "+first, func(t *testing.T) {
			inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
				t.Helper()
				stamped := func(name string) {
					c := w.newClaim(name)
					c.Annotations[catalog.LaunchAnnotation] = "call"
					w.create(c)
					w.subject.Enqueue(c)
				}
				want := map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.large us-east-1a"}
				stamped("default-a")
				if first == "is deleted" {
					want["default-a"] = "going"
					if err := w.api.Delete(context.Background(), &w.claims()[0]); err != nil {
						t.Fatal(err)
					}
				}
				w.settle(time.Minute)
				stamped("default-b")
				w.settle(time.Minute)
				w.want(want)
				w.owners()
			})
		})
	}
}

// EC2 launched fewer instances than requested before the crash: those are assigned at once, the rest is bought after 30 seconds.
func TestPartialFulfilmentBeforeACrash(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.SetCapacity(memory.Offering{}, 1)
		w.at("after", always("launch", errCrash))
		w.record("default-a", "default-b")
		w.settle(100 * time.Millisecond)
		w.ec2.SetCapacity(memory.Offering{}, 9)
		w.crash()
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "no instance"})
		w.settle(19 * time.Second)
		w.wantLaunches(1)
		w.settle(time.Minute)
		if got := w.state(); got["default-a"] != "m7g.large us-east-1a" || got["default-b"] == "no instance" {
			t.Errorf("claims %v", got)
		}
		w.owners()
	})
}

// ShiftedZones implements launch.Cloud.
func (c brittleCloud) ShiftedZones() (zones map[string]bool, known bool) { return c.w.shifted, true }

// A zonal shift is away from the zone of an instance that no claim needs any more: no call is made for it. The collection ends it after the shift.
func TestSurplusInAShiftedZone(t *testing.T) {
	for zone, left := range map[string]int{"id-us-east-1a": 2, "id-us-east-1b": 1} {
		t.Run(zone, func(t *testing.T) {
			inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
				t.Helper()
				w.shifted = map[string]bool{zone: true}
				w.loseFirstAnswer()
				w.record("default-a", "default-b")
				w.settle(10 * time.Second)
				w.want(map[string]string{"default-a": "going", "default-b": "m7g.large us-east-1a"})
				if live := w.ec2.Live(); len(live) != left {
					t.Errorf("live instances %v, want %d", live, left)
				}
			})
		})
	}
}

// Terminating the surplus fails: what was dealt is not dealt again.
func TestSurplusThatCannotBeTerminated(t *testing.T) {
	inWorld(t, memory.Config{VisibleAfter: time.Second}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("before", once("terminate", errors.New("throttled")))
		w.ec2.SetCapacity(memory.Offering{}, 2)
		w.record("default-a", "default-b", "default-c")
		w.settle(500 * time.Millisecond)
		claims := w.claims()
		if err := w.api.Delete(context.Background(), &claims[0]); err != nil {
			t.Fatal(err)
		}
		w.ec2.SetCapacity(memory.Offering{}, 9)
		w.settle(2 * time.Minute)
		if got := w.state(); got["default-a"] != "going" || got["default-b"] != "m7g.large us-east-1a" || got["default-c"] == "no instance" {
			t.Errorf("claims %v", got)
		}
		w.owners()
	})
}

func TestLeadershipLostAndRegained(t *testing.T) {
	inWorld(t, memory.Config{VisibleAfter: 5 * time.Second}, func(t *testing.T, w *world) {
		t.Helper()
		w.lead(false)
		w.record("default-a", "default-b")
		w.settle(time.Second)
		w.wantLaunches(0)
		w.lead(true)
		w.settle(time.Second)
		w.lead(false) // While EC2 does not show the instances yet.
		w.settle(10 * time.Second)
		w.want(map[string]string{"default-a": "no instance", "default-b": "no instance"})
		w.lead(true)
		w.settle(10 * time.Second)
		if n := w.attempts(); n != 1 {
			t.Errorf("%d ids: %v", n, w.tokens)
		}
		w.owners()
	})
}

// Meanwhile another leader began an attempt of its own, and its process died: its call is looked after, ours is not repeated.
func TestAnotherLeaderMeanwhile(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.Throttle(time.Second)
		w.record("default-a")
		w.settle(500 * time.Millisecond)
		w.lead(false)
		w.settle(2 * time.Second)
		c := w.claims()[0]
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, catalog.LaunchAnnotation, "another")
		if err := w.api.Update(context.Background(), &c); err != nil {
			t.Fatal(err)
		}
		theirs := w.ec2.Put(cloud.Instance{
			InstanceType: "m7g.large", Zone: "us-east-1b", CapacityType: "on-demand", PrivateDNSName: "theirs",
			Tags: map[string]string{catalog.LaunchAnnotation: "another"},
		})
		calls := w.ec2.Calls(memory.Launch)
		w.lead(true)
		w.settle(10 * time.Second)
		w.wantLaunches(calls)
		if got := w.claims()[0].Status.ProviderID; got != "aws:///us-east-1b/"+theirs {
			t.Errorf("providerID %s, want that of %s", got, theirs)
		}
		w.owners()
	})
}

// Another leader began an attempt for what is left of a call whose instances this process has begun to assign, or the cache showed a restarted
// process the ID of the attempt before: the claim is launched with the ID that it has.
func TestAnotherLeaderAfterTheCall(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
				t.Helper()
				w.at("before", always("status default-a", context.Canceled))
				w.record("default-a")
				w.settle(100 * time.Millisecond)
				w.lead(false)
				w.settle(time.Minute)
				if restarted {
					w.stop()
					w.start()
				}
				w.at("", nil)
				c := w.claims()[0]
				stale := c.DeepCopy()
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, catalog.LaunchAnnotation, "another")
				if err := w.api.Update(context.Background(), &c); err != nil {
					t.Fatal(err)
				}
				// The other leader terminated the call's instance.
				if err := w.ec2.Terminate(context.Background(), w.ec2.Live()); err != nil {
					t.Fatal(err)
				}
				w.lead(true)
				w.subject.Enqueue(stale)
				w.settle(time.Minute)
				w.subject.Enqueue(&c) // As each look of package join does.
				w.settle(time.Minute)
				w.want(map[string]string{"default-a": "m7g.large us-east-1a"})
				w.wantLaunches(2)
				w.owners()
			})
		})
	}
}

// Some EC2 stand-ins ignore client tokens: a call repeated after a lost answer launches again. The first instance has no claim, and the
// garbage collection terminates it by its launch ID; the one with a claim stays.
func TestEC2WithoutClientTokens(t *testing.T) {
	inWorld(t, memory.Config{IgnoreTokens: true}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("after", once("launch", errors.New("connection reset")))
		w.record("default-a", "default-b")
		w.settle(10 * time.Second)
		if n := len(w.ec2.Live()); n != 4 {
			t.Fatalf("%d instances: this test needs the two of the lost answer and two more", n)
		}
		ender := &noEnd{}
		garbage, err := collect.New(collect.Config{Reader: w.api, Client: w.api, Cloud: w.ec2, Guard: w, Ender: ender, Events: w})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = garbage.Run(ctx) })
		w.settle(time.Minute)
		cancel()
		group.Wait()
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.large us-east-1a"})
		w.owners()
		if len(ender.claims) > 0 {
			t.Errorf("claims were ended: %v", ender.claims)
		}
	})
}

// noEnd notes the claims that the garbage collection ends.
type noEnd struct{ claims []string }

// Begin implements collect.Ender.
func (n *noEnd) Begin(_ context.Context, claim *karpv1.NodeClaim, _ string) error {
	n.claims = append(n.claims, claim.Name)
	return nil
}

// loseFirstAnswer has the answer to the first call of CreateFleet be lost, and a claim of it be deleted meanwhile.
func (w *world) loseFirstAnswer() {
	w.at("after", func(what string) error {
		if what != "launch" || w.ec2.Calls(memory.Launch) > 1 {
			return nil
		}
		claims := w.claims()
		return errors.Join(w.api.Delete(context.Background(), &claims[0]), errors.New("connection reset"))
	})
}
