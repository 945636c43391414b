package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/invariants"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// interrupt interrupts the spot instance with the most pods, and waits until they run elsewhere and the NodeClaim is
// deleted.
func (s *story) interrupt(ctx context.Context) (string, error) {
	victim, ok := busiestSpot(s.recorder.Overview(namespace))
	if !ok {
		return "", errors.New("no spot node with pods was launched")
	}
	id := ""
	for _, c := range s.recorder.Claims() {
		if c.Object.Name == victim.NodeClaim {
			id = c.Object.Status.ProviderID[strings.LastIndexByte(c.Object.Status.ProviderID, '/')+1:]
		}
	}
	if err := s.sandbox.AWS().Interrupt(id); err != nil {
		return "", err
	}
	s.screen.line("   EC2 announces the interruption of %s (%s, %d pods)", victim.Node, victim.InstanceType, victim.Pods)
	err := s.watching(ctx, "the pods to run elsewhere and node "+victim.Node+" to be removed", func() bool {
		return s.deleted(victim.NodeClaim) && s.running() == s.report.Pods.Wanted
	})
	s.report.Pods.Lost = s.report.Pods.Wanted - s.running() + s.failed()
	if err != nil {
		return "", err
	}
	if s.report.Pods.Lost != 0 {
		return "", fmt.Errorf("%d pods were lost", s.report.Pods.Lost)
	}
	s.screen.keep(s.table())
	return fmt.Sprintf("the %d pods of %s run on other nodes, none lost", victim.Pods, victim.Node), nil
}

func busiestSpot(o view.Overview) (view.NodeRow, bool) {
	var best view.NodeRow
	for _, n := range o.Nodes {
		if n.CapacityType == karpv1.CapacityTypeSpot && n.State == view.StateReady && n.Pods > best.Pods {
			best = n
		}
	}
	return best, best.Pods > 0
}

func (s *story) deleted(nodeClaim string) bool {
	for _, c := range s.recorder.Claims() {
		if c.Object.Name == nodeClaim {
			return c.Deleted.Seen()
		}
	}
	return false
}

// failed counts pods that a kubelet rejected or that failed with their node.
func (s *story) failed() int {
	n := 0
	for _, p := range s.recorder.Pods() {
		if p.Object.Namespace == namespace && p.Failed.Seen() {
			n++
		}
	}
	return n
}

func (s *story) scaleDown(ctx context.Context) (string, error) {
	if _, err := s.scale(ctx, func(*appsv1.Deployment) (int, error) { return 0, nil }); err != nil {
		return "", err
	}
	err := s.watching(ctx, "all NodeClaims to be deleted", func() bool { return len(s.recorder.Overview(namespace).Nodes) == 0 })
	if err != nil {
		return "", err
	}
	return "every node was empty for 5 s, the scheduler confirmed it, and the node was removed", nil
}

// leaks waits until EC2 shows no running instance of slipway.
func (s *story) leaks(ctx context.Context) (string, error) {
	deadline := time.Now().Add(15 * time.Second)
	for {
		s.report.Instances = s.countInstances()
		if s.report.Instances.Leaked == 0 {
			// The rules need the histories read before the instances.
			evidence := invariants.Evidence{Claims: s.recorder.Claims()}
			evidence.Instances = s.sandbox.AWS().Instances()
			if broken := invariants.Always(evidence); len(broken) > 0 {
				return "", errors.New(strings.Join(broken, "; "))
			}
			return fmt.Sprintf("%d instances launched, %d terminated, none left", s.report.Instances.Launched, s.report.Instances.Terminated), nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return "", fmt.Errorf("%d instances still run, and no NodeClaim owns them", s.report.Instances.Leaked)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *story) countInstances() Instances {
	var out Instances
	for _, i := range s.sandbox.AWS().Instances() {
		if i.Tags[karpv1.NodePoolLabelKey] == "" {
			continue // The managed node is EKS's own.
		}
		out.Launched++
		if i.State == "terminated" || i.State == "shutting-down" {
			out.Terminated++
		} else {
			out.Leaked++
		}
	}
	return out
}

// measure fills in the report's timings, how pods were bound, and what other plans would cost.
func (s *story) measure(ctx context.Context) error {
	pods := s.recorder.Pods()
	mine := pods[:0]
	for _, p := range pods {
		if p.Object.Namespace == namespace {
			mine = append(mine, p)
		}
	}
	s.report.Seconds = observe.Measure(mine, s.recorder.Nodes(), s.recorder.Claims(), s.sandbox.FleetCalls())
	if err := s.countPreBound(ctx); err != nil {
		return err
	}
	state, err := s.sandbox.Catalog(ctx)
	if err != nil {
		return err
	}
	// In-flight nodes are left out: the plans start from an empty cluster.
	state.InFlight = nil
	for name, pool := range state.NodePools {
		pool.Usage = nil
		state.NodePools[name] = pool
	}
	var daemons appsv1.DaemonSetList
	if err := s.client.List(ctx, &daemons); err != nil {
		return err
	}
	sets := make([]*appsv1.DaemonSet, 0, len(daemons.Items))
	for i := range daemons.Items {
		sets = append(sets, &daemons.Items[i])
	}
	in := plan.Input{Now: time.Now(), Catalog: state, Classes: classes(mine), DaemonSets: sets}
	best := plan.Make(ctx, in)
	s.report.LowerBoundPerHour, s.report.FirstFitPerHour = plan.LowerBound(ctx, in, &best), best.FirstFitPerHour
	return nil
}

// eventsWithin is how late an Event may be. Events are written in the background, one after the other.
const eventsWithin = 3 * time.Second

// countPreBound counts the pods with an Event PreBound. It ends when every pod on nodes of the demo has one, or after
// eventsWithin.
func (s *story) countPreBound(ctx context.Context) error {
	onOurs := 0
	for _, n := range s.report.Nodes {
		onOurs += n.Pods
	}
	for deadline := time.Now().Add(eventsWithin); ; {
		var events corev1.EventList
		if err := s.client.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		bound := map[string]bool{}
		for _, e := range events.Items {
			if e.Reason == "PreBound" {
				bound[string(e.InvolvedObject.UID)] = true
			}
		}
		s.report.Pods.PreBound = len(bound)
		if len(bound) >= onOurs || time.Now().After(deadline) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *story) summary() {
	r := &s.report
	s.screen.line("\n── summary")
	s.screen.line("pods       %d wanted, %d running, %d pre-bound, %d lost", r.Pods.Wanted, r.Pods.Running, r.Pods.PreBound, r.Pods.Lost)
	s.screen.line("bill       %.4f USD per hour on %d nodes; lower bound %.4f, first-fit %.4f", r.CostPerHour, len(r.Nodes), r.LowerBoundPerHour, r.FirstFitPerHour)
	s.screen.line("instances  %d launched, %d terminated, %d leaked", r.Instances.Launched, r.Instances.Terminated, r.Instances.Leaked)
	for _, stage := range []struct {
		name string
		d    observe.Distribution
	}{
		{"pending to plan", r.Seconds.PendingToPlan},
		{"plan to EC2 call", r.Seconds.PlanToCall},
		{"EC2 call to Node", r.Seconds.CallToNode},
		{"EC2 call to Ready", r.Seconds.CallToReady},
		{"Ready to bound", r.Seconds.ReadyToBound},
		{"bound to running", r.Seconds.BoundToRunning},
	} {
		s.screen.line("%-18s %7.3f s median, %7.3f s at the 99th percentile, of %d", stage.name, stage.d.P50, stage.d.P99, stage.d.N)
	}
	if r.OK {
		s.screen.line("every step came true; a sandbox that stays, to look around: bin/slipway-sandbox up --speed 10")
	} else {
		s.screen.line("the demo FAILED: see the step marked ✗")
	}
}

// classes groups pods by identical needs, as the plugin does. The pods are as they were before they were bound.
func classes(pods []observe.Pod) []plan.Class {
	index := map[string]int{}
	var out []plan.Class
	for _, p := range pods {
		pod := p.Object.DeepCopy()
		pod.Spec.NodeName = ""
		key := plan.ClassKey(pod)
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out = append(out, plan.Class{Key: key, Pod: pod})
		}
		out[i].Pods = append(out[i].Pods, catalog.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
	}
	return out
}
