// Package check holds what a plugin with a memory answers against what Kubernetes' plugin does, now and then, while the scheduler runs. What is remembered
// wrongly would place pods where they must not be, and nothing else would show it.
package check

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/breaker"
)

const (
	// first answers are all checked, also after one that differs, and then one of every at random: that adds less than a hundredth of what is saved.
	first, every = 16, 256
)

// Plugin is what is compared.
type Plugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

// Check compares two plugins. An answer that differs may come of an object that changed between the two computations; after a second one within a few answers Ours
// remembers nothing for ten minutes. It is safe for concurrent use.
type Check struct {
	// Ours has a memory, and Kubernetes none. Required.
	Ours, Kubernetes Plugin
	// Breaker is tripped by answers that differ. Required.
	Breaker *breaker.Breaker
	// Forget has Ours forget all after an answer that may not be used. Required.
	Forget func()

	// answers were given since the start, or since one that differed.
	answers atomic.Int64
	// doubtful means that one of them differed.
	doubtful atomic.Bool
}

// Filters reports whether what Ours has written to the state of the cycle may be used. Where the answer is checked, both plugins are asked about all nodes.
func (c *Check) Filters(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) bool {
	return !c.due() || c.hold(ctx, pod, func() error {
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
	return !c.due() || c.hold(ctx, pod, func() error {
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
func (c *Check) due() bool {
	answers := c.answers.Add(1)
	if answers == first+1 {
		c.doubtful.Store(false)
	}
	return answers <= first || rand.IntN(every) == 0
}

// hold reports whether the answers are equal, and has Ours forget where that is not known.
func (c *Check) hold(ctx context.Context, pod *corev1.Pod, compare func() error) bool {
	var differs error
	ran := c.Breaker.Do(klog.FromContext(ctx), func() { differs = compare() })
	if ran && ctx.Err() == nil && differs == nil {
		return true
	}
	c.Forget()
	if differs == nil || ctx.Err() != nil {
		return false // What was stopped half way proves nothing.
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod))
	differs = fmt.Errorf("what it remembers differs from %s: %w", c.Kubernetes.Name(), differs)
	c.answers.Store(0)
	if c.doubtful.Swap(true) {
		c.doubtful.Store(false)
		c.Breaker.Trip(logger, differs)
	} else {
		logger.Info("A plugin forgets all and begins again", "plugin", c.Ours.Name(), "reason", differs)
	}
	return false
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
