// Package check holds what a plugin with a memory answers against what Kubernetes' plugin does, now and then, while the scheduler runs. What is remembered
// wrongly would place pods where they must not be, and nothing else would show it.
package check

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/breaker"
)

// every is how many answers there are to one that is checked: that adds less than a hundredth of what is saved.
const every = 256

// Plugin is what is compared.
type Plugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

// Check compares two plugins. After an answer that differs, and after a panic, Ours remembers nothing for ten minutes. It is safe for concurrent use.
type Check struct {
	// Ours has a memory, and Kubernetes none. Required.
	Ours, Kubernetes Plugin
	// Breaker is tripped by an answer that differs. Required.
	Breaker *breaker.Breaker

	filters, scores atomic.Uint64
}

// Filters reports whether what Ours has written to the state of the cycle may be used. It asks both plugins about all nodes in the first cycle, and in one of 256.
func (c *Check) Filters(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) bool {
	return !due(&c.filters) || c.hold(ctx, pod, func() error {
		theirs := framework.NewCycleState()
		_, status := c.Kubernetes.PreFilter(ctx, theirs, pod, nodes)
		if !status.IsSuccess() && !status.IsSkip() {
			return fmt.Errorf("%s: %w", c.Kubernetes.Name(), status.AsError())
		}
		for _, node := range nodes {
			var want *fwk.Status
			if !status.IsSkip() {
				want = c.Kubernetes.Filter(ctx, theirs, pod, node)
			}
			if got := c.Ours.Filter(ctx, state, pod, node); got.Code() != want.Code() || got.Message() != want.Message() {
				return fmt.Errorf("node %s: %s %q, %s %q", node.Node().Name, got.Code(), got.Message(), want.Code(), want.Message())
			}
		}
		return nil
	})
}

// Scores is Filters for what Ours has written to score the nodes by, and returned from PreScore.
func (c *Check) Scores(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, returned *fwk.Status) bool {
	return !due(&c.scores) || c.hold(ctx, pod, func() error {
		theirs := framework.NewCycleState()
		want, err := scored{c.Kubernetes, theirs, c.Kubernetes.PreScore(ctx, theirs, pod, nodes)}.of(ctx, pod, nodes)
		if err != nil {
			return err
		}
		got, err := scored{c.Ours, state, returned}.of(ctx, pod, nodes)
		if err != nil {
			return err
		}
		for i := range want {
			if got[i] != want[i] {
				return fmt.Errorf("node %s: score %d, %d", want[i].Name, got[i].Score, want[i].Score)
			}
		}
		return nil
	})
}

// due reports whether this answer is one that is checked.
func due(answers *atomic.Uint64) bool { return (answers.Add(1)-1)%every == 0 }

// hold reports whether the answers are equal, and trips the breaker where they are not.
func (c *Check) hold(ctx context.Context, pod *corev1.Pod, compare func() error) bool {
	var differs error
	ran := c.Breaker.Do(klog.FromContext(ctx), func() { differs = compare() })
	if differs != nil {
		c.Breaker.Trip(klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod)), fmt.Errorf("what it remembers differs from %s: %w", c.Kubernetes.Name(), differs))
	}
	return ran && differs == nil
}

// scored is a plugin that has prepared the state of a cycle, and what it returned.
type scored struct {
	Plugin
	state    fwk.CycleState
	returned *fwk.Status
}

// of returns the normalized scores of the nodes, zeros where the plugin is skipped.
func (s scored) of(ctx context.Context, pod *corev1.Pod, nodes []fwk.NodeInfo) (fwk.NodeScoreList, error) {
	out := make(fwk.NodeScoreList, len(nodes))
	for i, node := range nodes {
		out[i].Name = node.Node().Name
	}
	if s.returned.IsSkip() {
		return out, nil
	}
	if !s.returned.IsSuccess() {
		return nil, fmt.Errorf("%s: %w", s.Name(), s.returned.AsError())
	}
	for i, node := range nodes {
		var status *fwk.Status
		if out[i].Score, status = s.Score(ctx, s.state, pod, node); !status.IsSuccess() {
			return nil, fmt.Errorf("%s: node %s: %w", s.Name(), out[i].Name, status.AsError())
		}
	}
	if status := s.ScoreExtensions().NormalizeScore(ctx, s.state, pod, out); !status.IsSuccess() {
		return nil, fmt.Errorf("%s: %w", s.Name(), status.AsError())
	}
	return out, nil
}
