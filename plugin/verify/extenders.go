package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

const (
	// extenderTimeout is how long an extender has for an answer; less where its httpTimeout is.
	extenderTimeout = 2 * time.Second
	// extenderRests is how long an extender is not asked again that gave no answer.
	extenderRests = 10 * time.Second
	// maxAsked is how many nodes one question has.
	maxAsked = 1000
)

// extender is an HTTP extender of the scheduler that is asked about nodes that do not exist yet.
type extender struct {
	fwk.Extender
	// failed is why the last question had no answer, until is how long it is not asked again.
	failed error
	until  time.Time
}

// newExtenders returns the extenders with a filter verb. Those that keep nodes in a cache of their own are left out: they receive names alone,
// and know none that does not exist.
func newExtenders(list []config.Extender) ([]*extender, error) {
	var out []*extender
	for i := range list {
		of := *list[i].DeepCopy()
		if of.FilterVerb == "" || of.NodeCacheCapable {
			continue
		}
		of.HTTPTimeout.Duration = min(cmp.Or(of.HTTPTimeout.Duration, extenderTimeout), extenderTimeout)
		e, err := scheduler.NewHTTPExtender(&of)
		if err != nil {
			return nil, fmt.Errorf("verify: extender %s: %w", of.URLPrefix, err)
		}
		out = append(out, &extender{Extender: e})
	}
	// As in the scheduler.
	slices.SortStableFunc(out, func(a, b *extender) int {
		return cmp.Compare(last(a.IsIgnorable()), last(b.IsIgnorable()))
	})
	return out, nil
}

func last(ignorable bool) int {
	if ignorable {
		return 1
	}
	return 0
}

// refuses asks about the nodes and returns the names of those that it refuses, each with the reason.
func (e *extender) refuses(pod *corev1.Pod, nodes []fwk.NodeInfo, now time.Time) (map[string]string, error) {
	if now.Before(e.until) {
		return nil, e.failed
	}
	passed, failed, unresolvable, err := e.Filter(pod, nodes)
	if err != nil {
		e.failed, e.until = err, time.Now().Add(extenderRests)
		return nil, err
	}
	pass := sets.New[string]()
	for _, ni := range passed {
		pass.Insert(ni.Node().Name)
	}
	out := map[string]string{}
	for _, ni := range nodes {
		if name := ni.Node().Name; !pass.Has(name) {
			out[name] = fmt.Sprintf("extender %s: %s", e.Name(), cmp.Or(failed[name], unresolvable[name], "refuses the node"))
		}
	}
	return out, nil
}

// question is what extenders are asked about for one class: the nodes of its spots, and the ways in which EC2 may launch them. Claims that
// may be launched in the same ways share them.
type question struct {
	pod   *corev1.Pod
	nodes []fwk.NodeInfo
	// spots and variants are the names of their nodes. A claim's spot has the name of its expected variant.
	spots    map[*spot]string
	variants map[*variant]string
	// answered means that an extender gave an answer.
	answered bool
}

func (q *question) add(node *corev1.Node) {
	ni := framework.NewNodeInfo()
	ni.SetNode(node)
	q.nodes = append(q.nodes, ni)
}

// ask returns the question about the spots of a class.
func (s *scene) ask(spots []*spot) *question {
	q := &question{pod: spots[0].pods[0].Pod, spots: map[*spot]string{}, variants: map[*variant]string{}}
	for _, at := range spots {
		if at.claim != nil {
			for _, x := range s.variants(at.claim) {
				if q.variants[x] == "" && len(q.nodes) < maxAsked {
					q.variants[x] = fmt.Sprintf("%s-%d", at.claim.NodePool, len(q.nodes))
					q.add(clusterview.VirtualNode(q.variants[x], maps.Clone(x.labels), at.claim.Taints, x.shape.Allocatable))
				}
				if x.of.Same(at.claim.Expected) {
					q.spots[at] = q.variants[x]
				}
			}
		}
		if q.spots[at] == "" {
			q.spots[at] = at.node.Node().Name
			q.add(at.node.Node())
		}
	}
	return q
}

// extend asks the extenders about the spots of a class that its filters accept. It returns the rejections, and keeps in the trial which
// variants they refuse. An extender that gives no answer rejects the class everywhere, as in the scheduler, unless it is ignorable.
func (v *Verifier) extend(ctx context.Context, t *trial, spots []*spot) []Verdict {
	var q *question
	refused := map[string]string{}
	for _, e := range v.extenders {
		if len(spots) == 0 || ctx.Err() != nil || !e.IsInterested(t.class.Pod) {
			continue
		}
		if q == nil {
			q = t.scene.ask(spots)
		}
		no, err := e.refuses(q.pod, q.nodes, time.Now())
		switch {
		case err != nil && e.IsIgnorable():
			klog.FromContext(ctx).V(2).Info("Extender gave no answer and is ignorable", "extender", e.Name(), "err", err)
		case err != nil:
			klog.FromContext(ctx).Error(err, "Extender gave no answer: its pods are not launched for", "extender", e.Name())
			why := fmt.Sprintf("extender %s gave no answer: %v", e.Name(), err)
			return []Verdict{{plan.Rejection{ClassKey: t.class.Key, Reason: why}, t.index, t.class.Pods}}
		default:
			q.answered = true
		}
		maps.Copy(refused, no)
		q.nodes = slices.DeleteFunc(q.nodes, func(ni fwk.NodeInfo) bool { return no[ni.Node().Name] != "" })
	}
	if q == nil {
		return nil
	}
	return t.refuse(q, spots, refused)
}

// refuse turns the extenders' refusals into rejections: of the spots' nodes, and of the other ways in which EC2 may launch those that are
// refused, so that the next plan does not try them one by one.
func (t *trial) refuse(q *question, spots []*spot, refused map[string]string) []Verdict {
	var out []Verdict
	t.refused = map[*variant]bool{}
	done := map[*variant]bool{}
	for _, at := range spots {
		if at.claim != nil {
			for _, x := range t.scene.variants(at.claim) {
				name := q.variants[x]
				if name == "" && x.of.Same(at.claim.Expected) {
					name = q.spots[at]
				}
				t.refused[x] = refused[name] != "" || name == "" && q.answered // What was not asked about may be refused.
			}
		}
		why := refused[q.spots[at]]
		if why == "" {
			continue
		}
		out = append(out, Verdict{at.reject(t.class, why, ""), t.index, at.refs})
		if at.claim == nil {
			continue
		}
		for _, x := range t.scene.variants(at.claim) {
			if no := refused[q.variants[x]]; no != "" && !done[x] {
				done[x] = true
				out = append(out, Verdict{x.reject(t.class.Key, at.claim.NodePool, no), t.index, at.refs})
			}
		}
	}
	return out
}
