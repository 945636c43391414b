package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/expect"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
)

// growth counts the pods of Deployments, and says how many more of them are expected. The planner's goroutine alone uses it.
type growth struct {
	objects *objects
	// off means that no pods are expected.
	off    bool
	counts expect.Growth
}

// tend counts where that is due.
func (g *growth) tend(now time.Time) {
	if g.off || !g.counts.Due(now) {
		return
	}
	if pods, err := g.objects.pods.List(labels.Everything()); err == nil {
		g.counts.Observe(now, pods)
	}
}

// of returns what the Deployments of the entries are expected to add, for the planner; nil for nothing.
func (g *growth) of(entries []intake.Entry) func(catalog.PodRef) (string, int) {
	if g.off {
		return nil
	}
	growing := map[string]expect.Workload{}
	for _, e := range entries {
		if w := expect.WorkloadOf(e.Pod); g.counts.Of(w) > 0 {
			growing[string(e.Pod.UID)] = w
		}
	}
	if len(growing) == 0 {
		return nil
	}
	return func(ref catalog.PodRef) (string, int) {
		w := growing[ref.UID]
		return w.String(), g.counts.Of(w)
	}
}

// all returns what all Deployments are expected to add.
func (g *growth) all() []expect.Expected {
	if g.off {
		return nil
	}
	return g.counts.All(expect.MostKept)
}

// keepExpected gives the pods that are expected the room that there is for them on nodes with other pods, in the buffers of the decision alone: pods that
// move do not take it, and they move with their node, as those of a capacity buffer do. Where there is no room none is kept.
func (c *consolidator) keepExpected(ctx context.Context, d decision) error {
	var entries []intake.Entry
	byUID := map[string]*corev1.Pod{}
	for _, e := range d.expected {
		if !alike(e.Like) {
			continue
		}
		b := buffers.Buffer{
			Namespace: e.Workload.Namespace, Name: "expected." + e.Workload.Name, UID: "expected/" + e.Workload.String(), Count: e.Pods,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: e.Like.Labels}, Spec: e.Like.Spec},
		}
		for i, pod := range b.Pods(e.Like.Spec.SchedulerName) {
			pod.Name = fmt.Sprintf("expected:%s-%d", e.Workload.Name, i+1)
			ours := c.queue.profiles.ours(pod)
			entries, byUID[string(pod.UID)] = append(entries, intake.Entry{Pod: ours, Class: plan.ClassKey(ours)}), ours
		}
	}
	if len(entries) == 0 {
		return nil
	}
	req, err := c.needs.request(entries, d.catalog, c.snapshot)
	if err != nil {
		return err
	}
	// The same rule as for launches.
	req.Classes = slices.DeleteFunc(req.Classes, func(class plan.Class) bool { return !provision.Plain(&class) })
	if len(req.Classes) == 0 {
		return nil
	}
	req.Now = time.Now()
	req.Cluster.Kept = c.coming.kept(req.Now, d.reserved.Each, d.buffers.Each)
	going := setOf(d.question.GetConsolidate().GetAvoid())
	req.Cluster.Room = func(name string) bool {
		info, err := c.snapshot.Get(name)
		return err == nil && !going[name] && slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return disruption.Occupies(p.GetPod()) })
	}
	within, cancel := context.WithTimeout(ctx, c.askAtMost)
	defer cancel()
	result, err := c.planning.Provision(within, req)
	if err != nil {
		return fmt.Errorf("planning pods that are expected: %w", err)
	}
	for _, at := range result.Plan.Placements {
		for _, m := range at.Members {
			for _, ref := range m.Pods {
				if pod := byUID[ref.UID]; pod != nil && !at.InFlight {
					d.buffers.Put(pod, "", at.Node)
				}
			}
		}
	}
	return nil
}

// alike reports whether the next pod of the Deployment is like this one: it is of no gang, and has no claims and no minimum on-demand share, which pods
// that do not exist lose.
func alike(pod *corev1.Pod) bool {
	share, _ := catalog.OnDemandShare(pod.Annotations)
	return share == 0 && plan.GangOf(pod).Name == "" && len(pod.Spec.ResourceClaims) == 0 &&
		!slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// evictions returns how many pods of a move exist: the names of others have a colon.
func evictions(m *consolidate.Move) (n int32) {
	for name := range m.Targets {
		if !strings.Contains(name, ":") && n < 1<<30 {
			n++
		}
	}
	return n
}

// expectedPods returns for how many pods there is room.
func expectedPods(rooms []plan.Room) (n int) {
	for _, r := range rooms {
		n += r.Pods
	}
	return n
}
