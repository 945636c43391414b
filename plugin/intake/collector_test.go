package intake

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func entryOf(name string, at time.Time) Entry {
	return Entry{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}, At: at}
}

func taken(c *Collector, now time.Time) (out []string) {
	for _, e := range c.Take(now) {
		out = append(out, e.Pod.Name+":"+e.Verdict)
	}
	return out
}

// A pod is handed over with the scheduler's verdict, whether the planner takes before the verdict is there or after it.
func TestVerdictComesWithThePod(t *testing.T) {
	now := time.Now()
	for _, first := range []string{"planner first", "verdict first"} {
		t.Run(first, func(t *testing.T) {
			c := NewCollector()
			c.AddInCycle(entryOf("a", now))
			if first == "planner first" {
				if got := taken(c, now); len(got) != 0 {
					t.Fatalf("took %v in the middle of the cycle", got)
				}
				if c.hold(true) {
					t.Error("drained with a pod that was not handed over")
				}
				<-c.wake
			}
			if !c.Verdict("a", "0/1 nodes") {
				t.Error("the failure is not slipway's")
			}
			select {
			case <-c.wake:
			default:
				t.Error("the planner is not woken by the verdict")
			}
			if got := taken(c, now); len(got) != 1 || got[0] != "a:0/1 nodes" {
				t.Errorf("took %v", got)
			}
			if got := taken(c, now); len(got) != 0 {
				t.Errorf("took %v a second time", got)
			}
		})
	}
}

// Whatever ends the cycle, also where nothing reports its end, the pod is handed over.
func TestEveryCycleEnds(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		end  func(*Collector)
		at   time.Time
		want []string
	}{
		"the pod preempts":            {end: func(c *Collector) { c.Remove("b") }, at: now, want: []string{"a:"}},
		"the next pod is collected":   {end: func(c *Collector) { c.AddInCycle(entryOf("c", now)) }, at: now, want: []string{"a:", "b:"}},
		"the queue has drained":       {end: func(c *Collector) { c.Drain() }, at: now, want: []string{"a:", "b:"}},
		"a tripped hook says nothing": {end: func(*Collector) {}, at: now.Add(cycleAtMost), want: []string{"a:", "b:"}},
		"it goes on":                  {end: func(*Collector) {}, at: now.Add(cycleAtMost - 1), want: []string{"a:"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCollector()
			c.Add(entryOf("a", now))
			c.AddInCycle(entryOf("b", now))
			tc.end(c)
			if got := taken(c, tc.at); len(got) != len(tc.want) || got[0] != tc.want[0] || got[len(got)-1] != tc.want[len(tc.want)-1] {
				t.Errorf("took %v, want %v", got, tc.want)
			}
		})
	}
}

// A pod that comes again while it is noted keeps its place and its time.
func TestCollectedTwice(t *testing.T) {
	now := time.Now()
	c := NewCollector()
	c.AddInCycle(entryOf("a", now))
	c.AddInCycle(entryOf("b", now))
	c.AddInCycle(entryOf("a", now.Add(time.Millisecond)))
	if got := taken(c, now.Add(time.Millisecond)); len(got) != 1 || got[0] != "b:" {
		t.Errorf("took %v, a is in its cycle", got)
	}
	c.Verdict("a", "v")
	got := c.Take(now)
	if len(got) != 1 || !got[0].At.Equal(now) || got[0].Verdict != "v" {
		t.Errorf("took %v", got)
	}
}

// The queue may drain between the planner's taking the last pod and its saying that the batch is open.
func TestDrainIsNoticedWhilePodsAreHandedOver(t *testing.T) {
	now := time.Now()
	c := NewCollector()
	c.Add(entryOf("a", now))
	if got := taken(c, now); len(got) != 1 {
		t.Fatalf("took %v", got)
	}
	if !c.Open() {
		t.Fatal("a queue that drains is not noticed")
	}
	c.Drain()
	if !c.hold(true) {
		t.Error("the batch does not know that the queue has drained")
	}
}
