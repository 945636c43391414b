package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// Options are the arguments of the planner.
type Options struct {
	// Plan are the planner's own options: its budget, the shares of spot NodePools and of nodes.
	Plan plan.Options
	// PreferenceShare is the additional cost that preferences may cause, as a share of what the pods that have them cost without
	// them: 0.1 for a tenth.
	PreferenceShare float64
	// MinValuesBestEffort keeps as many of a NodePool's minValues as possible, instead of launching nothing when not all can be
	// kept.
	MinValuesBestEffort bool
	// Scheduler has the profiles for the filters; nil for kube-scheduler's default one.
	Scheduler *Scheduler
	// Now is the time of the decision: some nodes are too young, some pods are protected for a while, spot offerings settle. Zero plans with each
	// offering as settled.
	Now time.Time
	// Expected returns the Deployment of a pod and how many pods it is expected to add; nil if no pods are expected.
	Expected func(catalog.PodRef) (workload string, pods int)
	// Log receives what the planner and the filters log; the zero value drops it.
	Log logr.Logger
	// taken are names that no new node may have, besides those of existing nodes.
	taken []string
}

// Outcome is the outcome in the planner's terms. Result converts it for output.
type Outcome struct {
	// Plan with its claims, placements and unplaced classes.
	Plan plan.Plan
	// Input of the plan.
	Input plan.Input
	// Held are pods that were not planned, with the reason.
	Held []Held
	// Problems of the input.
	Problems []input.Problem
	// Notes are sentences about what was assumed.
	Notes []string
	// Rounds is how often the batch was planned until the filters agreed.
	Rounds int
	// PlanTime and VerifyTime are the durations of planning and verifying, after loading.
	PlanTime, VerifyTime time.Duration
	// bound describes where a pod is that has a node or the promise of one, by namespace/name.
	bound map[string]string
	// rejected are the filters' rejections in all rounds.
	rejected []plan.Rejection
	// objects and cat are the input, for Nodes.
	objects *input.Objects
	cat     catalog.State
}

// LowerBound returns a bound on the cost of nodes for the pods that are placed on new ones, in USD per hour: no set of nodes
// costs less. It is no part of planning, and may take as long.
func (o *Outcome) LowerBound(ctx context.Context) float64 {
	in := o.Input
	in.Rejected = slices.Concat(in.Rejected, o.rejected)
	return min(plan.LowerBound(ctx, in, &o.Plan), o.Plan.CostPerHour)
}

// The codes of pods that were not planned.
const (
	codeInvalid = "InvalidPod"
	codeWaiting = "NotPlanned"
	codeLost    = "NoRoomLeft"
)

// Held is a pod that waits for something other than a node, or that an API server would refuse.
type Held struct {
	// Pod is its namespace and name.
	Pod string
	// Code is InvalidPod, NotPlanned, NoRoomLeft or Asleep.
	Code string
	// Reason is a sentence for users.
	Reason string
}

// Run plans the pending pods of the input onto its nodes and onto new ones.
func Run(ctx context.Context, objects *input.Objects, m *market.Market, o Options) (*Outcome, error) {
	cat, problems := m.Catalog(ctx, objects)
	out, err := place(ctx, objects, cat, o)
	if err != nil {
		return nil, err
	}
	out.objects, out.cat = objects, cat
	out.Problems = distinct(slices.Concat(objects.Problems, m.Problems, problems, out.Problems))
	out.Notes = slices.Concat(m.Notes, objects.Notes)
	if o.Scheduler != nil {
		out.Notes = append(out.Notes, o.Scheduler.Notes...)
	}
	return out, nil
}

// place plans the pending pods with the given catalog. The outcome has the planner's problems only. Pods for which no node may be launched, and that the plan
// launches one for, are held, and the others are planned without them.
func place(ctx context.Context, objects *input.Objects, cat catalog.State, o Options) (*Outcome, error) {
	var held []Held
	for {
		out, err := plannedOnce(ctx, objects, cat, o)
		if err != nil {
			return nil, err
		}
		left, lost := withoutLost(objects, &out.Plan)
		if len(lost) == 0 {
			out.Held = append(out.Held, held...)
			return out, nil
		}
		objects, held = left, append(held, lost...)
	}
}

// withoutLost returns the objects without the booked pods that are on nodes to launch, which are held: what is lost of their room is not launched again.
func withoutLost(objects *input.Objects, p *plan.Plan) (*input.Objects, []Held) {
	launched := map[string]bool{}
	for i := range p.Claims {
		for _, m := range p.Claims[i].Members {
			for _, ref := range m.Pods {
				if ref.Virtual() {
					launched[ref.UID] = true
				}
			}
		}
	}
	if len(launched) == 0 {
		return objects, nil
	}
	var lost []Held
	left := *objects
	left.Pods = slices.DeleteFunc(slices.Clone(objects.Pods), func(p input.Pod) bool {
		gone := p.Booked && launched[string(p.UID)]
		if gone {
			lost = append(lost, Held{Pod: p.Namespace + "/" + p.Name, Code: codeLost, Reason: "the room that it had is lost, and no node is launched for it again"})
		}
		return gone
	})
	return &left, lost
}

// plannedOnce plans the pending pods, and launches nodes for all that need one.
func plannedOnce(ctx context.Context, objects *input.Objects, cat catalog.State, o Options) (*Outcome, error) {
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, o.Log))
	defer cancel()
	out := &Outcome{bound: map[string]string{}}
	w, err := newWorld(ctx, objects, o.Scheduler)
	if err != nil {
		return nil, cmp.Or(cutShort(ctx), err)
	}
	defer w.stop()
	for _, p := range objects.Invalid {
		out.Held = append(out.Held, Held{Pod: p.Namespace + "/" + p.Name, Code: codeInvalid, Reason: p.Reason})
	}
	provisioner, err := provision.New(provision.Config{Verifier: w.verifier, Settings: provision.Settings{
		PreferenceShare: o.PreferenceShare, MinValuesBestEffort: o.MinValuesBestEffort, Plan: o.Plan,
	}})
	if err != nil {
		return nil, err
	}
	asleep, problems := asleepNow(objects, o.Now)
	classes := w.classes(awake(objects.Pods, asleep, out), cat.InFlight, out)
	start := time.Now()
	result, err := provisioner.Provision(ctx, provision.Request{
		Now: o.Now, Cluster: w.source(cat), Classes: classes, Namespaces: labelsOf(objects),
		NewNames: func() func(string) string { return names(objects.Nodes, o.taken) }, Expected: o.Expected,
	})
	if err != nil {
		return nil, fmt.Errorf("planning: %w", err)
	}
	if err := cutShort(ctx); err != nil {
		return nil, err
	}
	out.Input, out.Plan, out.Rounds, out.rejected = result.Input, result.Plan, result.Rounds, result.Rejected
	out.PlanTime, out.VerifyTime = result.PlanTime, time.Since(start)-result.PlanTime
	out.Problems = problems
	for _, p := range out.Plan.Problems {
		out.Problems = append(out.Problems, input.Problem{Object: p.Object, Field: p.Field, Message: p.Message})
	}
	return out, nil
}

// cutShort returns why planning was cut short; nil if it was not. A plan that was cut short has not passed the filters and would
// mislead.
func cutShort(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("planning was cut short: %w", err)
	}
	return nil
}

// distinct removes duplicates.
func distinct(in []input.Problem) []input.Problem {
	seen := map[input.Problem]bool{}
	return slices.DeleteFunc(in, func(p input.Problem) bool {
		said := seen[p]
		seen[p] = true
		return said
	})
}

// names numbers the claims of each NodePool. It leaves out the names of existing nodes and the others that are taken.
func names(nodes []*corev1.Node, others []string) func(string) string {
	taken, last := map[string]bool{}, map[string]int{}
	for _, name := range others {
		taken[name] = true
	}
	for _, n := range nodes {
		taken[n.Name] = true
	}
	return func(pool string) string {
		for {
			last[pool]++
			if name := fmt.Sprintf("%s-%d", pool, last[pool]); !taken[name] {
				taken[name] = true
				return name
			}
		}
	}
}

// labelsOf returns the labels of the namespaces. Every namespace has its name as a label; one that only pods name has no other.
func labelsOf(objects *input.Objects) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, ns := range objects.Namespaces {
		labels := map[string]string{}
		maps.Copy(labels, ns.Labels)
		labels[corev1.LabelMetadataName] = ns.Name
		out[ns.Name] = labels
	}
	for _, p := range objects.Pods {
		if out[p.Namespace] == nil {
			out[p.Namespace] = map[string]string{corev1.LabelMetadataName: p.Namespace}
		}
	}
	return out
}

// classes groups the pending pods by identical needs, in the order of the input. Pods that wait for something other than a node
// become held. Pods that have the promise of a node are not planned again.
func (w *world) classes(pods []input.Pod, inFlight map[string]catalog.InFlightNode, out *Outcome) []plan.Class {
	promised := map[string]string{}
	for _, n := range inFlight {
		for _, ref := range n.Pods {
			promised[ref.UID] = n.NodeClaim
		}
	}
	of := w.needs
	of.Selected = w.selected()
	classes, byShape := podclass.New(of), map[int]int{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			out.bound[p.Namespace+"/"+p.Name] = "bound to node " + p.Spec.NodeName
			continue
		}
		if claim, ok := promised[string(p.UID)]; ok {
			out.bound[p.Namespace+"/"+p.Name] = "waits for NodeClaim " + claim + ", whose node is on its way"
			continue
		}
		at, ok := byShape[p.Shape]
		if !ok || at >= 0 && classes.Single(p.Pod) {
			at = w.class(p, classes)
			byShape[p.Shape] = at
		}
		name := p.Namespace + "/" + p.Name
		switch {
		case at < 0:
			out.Held = append(out.Held, Held{Pod: name, Code: codeWaiting, Reason: w.held[^at]})
		default:
			classes.Add(at, catalog.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
		}
	}
	return classes.List()
}

// selected returns by which labels selectors of pods distinguish pods of one set: those of pending pods, and the required anti-affinity of those on nodes.
func (w *world) selected() *plan.Selected {
	if !slices.ContainsFunc(w.objects.Pods, func(p input.Pod) bool { return plan.Numbered(p.Pod) }) {
		return nil
	}
	out := &plan.Selected{}
	for _, p := range w.objects.Pods {
		if p.Spec.NodeName == "" {
			out.Add(p.Pod)
		} else {
			out.AddRepelled(p.Pod)
		}
	}
	return out
}

// class returns the index of the pod's class. A negative result is the complement of the index of the reason in w.held.
func (w *world) class(p input.Pod, classes *podclass.Classes) int {
	if why := waits(p.Pod); why != "" {
		w.held = append(w.held, why)
		return ^(len(w.held) - 1)
	}
	return classes.Of(p.Pod, "")
}

// waits returns what the pod waits for other than a node; empty for nothing.
func waits(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case len(pod.Spec.SchedulingGates) > 0:
		return "held by the scheduling gate " + pod.Spec.SchedulingGates[0].Name
	}
	return ""
}

// byController reports whether the controller of the pod has the kind and name.
func byController(pod metav1.Object, kind, name string) bool {
	c := metav1.GetControllerOf(pod)
	return c != nil && c.Kind == kind && c.Name == name
}
