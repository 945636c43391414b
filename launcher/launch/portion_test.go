package launch_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// throttled is EC2's refusal of a call for more instances than the account may launch now.
func throttled() error {
	return &cloud.LaunchError{
		Class: "default", Cause: cloud.CauseThrottled, Code: "RequestLimitExceeded", Reason: "RequestLimitExceeded", Message: "EC2 throttles",
		Err: errors.New("RequestLimitExceeded"),
	}
}

// An account that may launch 30 instances at once and two a second gets 100 nodes as fast as that, although no call for all of them would ever
// be answered, and no node is bought twice.
func TestThrottledGroupAsksForFewer(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		tokens, at := 30.0, time.Now()
		w.at("before", func(what string) error {
			if what != "launch" {
				return nil
			}
			tokens, at = min(30, tokens+2*time.Since(at).Seconds()), time.Now()
			asked := float64(len(w.inputs[len(w.inputs)-1].Claims))
			if asked > tokens {
				return throttled()
			}
			tokens -= asked
			return nil
		})
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("default-%02d", i))
		}
		w.record(names...)
		w.settle(60 * time.Second)
		w.owners()
		for name, state := range w.state() {
			if !strings.HasPrefix(state, "m7g") {
				t.Errorf("%s is not launched: %q", name, state)
			}
		}
		if len(w.failed) > 0 {
			t.Errorf("failed: %v", w.failed)
		}
	})
}

// The answer of a call is lost, and its repetition is throttled: what it launched is found, and not bought again in smaller calls.
func TestThrottledRepetitionOfALostCall(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("after", func(what string) error {
			if what != "launch" || w.ec2.Calls(memory.Launch) > 1 {
				return nil
			}
			return throttled()
		})
		w.record("default-a", "default-b")
		w.settle(time.Minute)
		w.wantLaunches(1)
		w.owners()
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.large us-east-1a"})
	})
}

// The same, where EC2 shows the instances of the lost call some seconds later, and whether the try without an answer was a call of its own or an attempt of the
// one that was throttled in the end.
func TestThrottledRepetitionOfALostCallThatShowsLate(t *testing.T) {
	within, ok := cloud.AsLaunch(throttled())
	if !ok {
		t.Fatal("no error of a launch")
	}
	within.Lost = true
	for name, first := range map[string]error{"own call": errors.New("connection reset"), "attempt": within} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, memory.Config{VisibleAfter: 10 * time.Second}, func(t *testing.T, w *world) {
				t.Helper()
				var tries atomic.Int32
				w.at("after", func(what string) error {
					switch {
					case what != "launch" || tries.Add(1) > 2:
						return nil
					case tries.Load() == 1:
						return first
					}
					return throttled()
				})
				w.record("default-a", "default-b", "default-c")
				w.settle(2 * time.Minute)
				w.owners()
				w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.large us-east-1a", "default-c": "m7g.large us-east-1a"})
				if n := w.attempts(); n != 1 {
					t.Errorf("%d calls with ids of their own, want one", n)
				}
			})
		})
	}
}

// Claims that wait for a later call than the next one end in time as well.
func TestThrottledGroupEndsInTime(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.at("before", func(what string) error {
			if what == "launch" {
				return throttled()
			}
			return nil
		})
		w.record("default-a", "default-b", "default-c", "default-d")
		w.settle(5*time.Minute + 30*time.Second)
		w.want(map[string]string{"default-a": "going", "default-b": "going", "default-c": "going", "default-d": "going"})
		if len(w.failed) != 4 {
			t.Errorf("failed: %v", w.failed)
		}
	})
}

// One claim of a throttled call is handed over late, while its group asks for the others in smaller calls. Its own search leaves them alone: two groups
// would give the instances of one call to claims, each by itself.
func TestLateClaimOfAThrottledCall(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		stamp, release := w.subject.Hold(nil)
		var claims []*karpv1.NodeClaim
		for _, name := range []string{"default-a", "default-b", "default-c", "default-d", "default-e"} {
			c := w.newClaim(name)
			stamp(c)
			w.create(c)
			claims = append(claims, c)
		}
		var calls atomic.Int32
		w.at("before", func(what string) error {
			if what != "launch" {
				return nil
			}
			switch calls.Add(1) {
			case 1:
				return throttled() // The next call is for two of them.
			case 2:
				return errors.New("connection reset")
			}
			return nil
		})
		w.answer = func(call int, out cloud.LaunchOutput) cloud.LaunchOutput {
			if call == 2 { // That for the other two: EC2 shows their instances long before.
				time.Sleep(10 * time.Second)
			}
			return out
		}
		w.subject.Enqueue(claims[:4]...)
		release()
		w.settle(100 * time.Millisecond)
		w.subject.Enqueue(claims[4])
		w.settle(2 * time.Minute)
		w.owners()
		slices.Sort(w.planned)
		if want := []string{"default-a", "default-b", "default-c", "default-d", "default-e"}; !slices.Equal(w.planned, want) {
			t.Errorf("instances were given to %v, want each claim once", w.planned)
		}
	})
}
