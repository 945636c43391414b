package podstatus

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// crowd is a Writer with many pods that fit nowhere.
type crowd struct {
	*reporter
	pods []*corev1.Pod
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	c := &crowd{}
	var objects []runtime.Object
	for i := range n {
		name := fmt.Sprintf("crowd-%d", i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		c.pods, objects = append(c.pods, pod), append(objects, pod)
	}
	c.reporter = newReporter(t, pending(), objects...)
	return c
}

// refuse reports the same reason and verdict for all pods, and lets all be written that is written at once.
func (c *crowd) refuse(code, verdict string) {
	message := explain.Unplaced(plan.Unplaced{Reasons: []plan.Reason{{NodePool: "a", Code: code, Message: "full"}}}, verdict)
	for _, pod := range c.pods {
		c.Report(Note{Pod: catalog.PodRefOf(pod), Message: message, EventReason: "FailedScheduling"})
	}
}

// showing returns how many pods have a message that begins with the text.
func (c *crowd) showing(text string) int {
	list, err := c.client.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	n := 0
	for i := range list.Items {
		if strings.HasPrefix(Message(&list.Items[i]), text) {
			n++
		}
	}
	return n
}

// A node that comes changes the figures in the message of each pod that fits nowhere. They are refreshed little by little, the newest
// ones, and all in the end. A new reason waits for none of this.
func TestFiguresAreRefreshedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 200
		c := newCrowd(t, pods)
		c.refuse("LimitExceeded", "0/1 nodes are available.")
		time.Sleep(10 * time.Second)
		if got, n := c.showing("0/1 nodes"), c.patches(); got != pods || n != pods {
			t.Fatalf("%d of %d pods have a condition, after %d patches", got, pods, n)
		}
		c.sent()
		const nodes = 20
		for i := range nodes {
			c.refuse("LimitExceeded", fmt.Sprintf("0/%d nodes are available.", i+2))
			time.Sleep(time.Second)
		}
		if got, most := c.patches()-pods, refreshBurst+nodes*int(time.Second/refreshEvery)+1; got > most || got < refreshBurst {
			t.Errorf("%d patches while %d nodes came, want %d to %d", got, nodes, refreshBurst, most)
		}
		if got := c.sent(); len(got) != 0 {
			t.Errorf("%d Events about figures, the first %q", len(got), got[0])
		}
		c.says("b", "") // Another pod gets its first reason beside them.
		if !strings.Contains(c.condition(), "NodePool b: full") {
			t.Errorf("a new reason waited: %q", c.condition())
		}
		time.Sleep(pods * refreshEvery)
		if got := c.showing(fmt.Sprintf("0/%d nodes", nodes+1)); got != pods {
			t.Errorf("%d of %d pods show the newest figures in the end", got, pods)
		}
		c.refuse("RequirementsConflict", "0/1 nodes are available.")
		time.Sleep(10 * time.Second)
		if got := c.showing("0/1 nodes"); got != pods {
			t.Errorf("%d of %d pods show another reason at once", got, pods)
		}
	})
}

// Pods whose conditions say all of a note take no turn from those that wait for new figures, though their Events are not remembered any more: a later plan would
// have each take another one.
func TestWhatIsWrittenIsNotRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 2 * refreshBurst
		c := newCrowd(t, pods)
		c.refuse("LimitExceeded", "0/1 nodes are available.")
		time.Sleep(eventMemory + 2*sweepEvery)
		if n := len(c.sent()); n != pods || len(c.events) != 0 {
			t.Fatalf("%d Events on %d pods, %d are remembered", n, pods, len(c.events))
		}
		for plans := range 3 {
			c.refuse("LimitExceeded", "0/1 nodes are available.")
			if got := c.sent(); len(got) != 0 || len(c.stale.notes) != 0 || c.refresh.Tokens() < refreshBurst {
				t.Errorf("plan %d: %d notes wait for a turn and %.0f turns are left, want none and %d; %d Events", plans, len(c.stale.notes), c.refresh.Tokens(), refreshBurst, len(got))
			}
		}
		if n := c.patches(); n != pods {
			t.Errorf("%d patches of %d pods", n, pods)
		}
	})
}
