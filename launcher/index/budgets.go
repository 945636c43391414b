package index

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// Budgets reads PodDisruptionBudgets from a cache, and keeps their selectors from one look to the next. It is safe for concurrent use; its zero value is
// ready.
type Budgets struct {
	mu        sync.Mutex
	selectors disruption.Selectors
}

// Look begins a look. What was not read since the look before it began is forgotten.
func (b *Budgets) Look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.selectors.Look()
}

// All begins a look and reads the budgets of the cluster.
func (b *Budgets) All(ctx context.Context, cache client.Reader) (disruption.PodBudgets, error) {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing PodDisruptionBudgets: %w", err)
	}
	b.Look()
	return b.parsed(list), nil
}

// Of reads those of the pods' namespaces alone: a step about one node is not to read all of the cluster.
func (b *Budgets) Of(ctx context.Context, cache client.Reader, pods ...*corev1.Pod) (disruption.PodBudgets, error) {
	out := disruption.PodBudgets{}
	for _, pod := range pods {
		if _, read := out[pod.Namespace]; read {
			continue
		}
		list := &policyv1.PodDisruptionBudgetList{}
		if err := cache.List(ctx, list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing PodDisruptionBudgets of namespace %s: %w", pod.Namespace, err)
		}
		out[pod.Namespace] = b.parsed(list)[pod.Namespace]
	}
	return out, nil
}

func (b *Budgets) parsed(list *policyv1.PodDisruptionBudgetList) disruption.PodBudgets {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.selectors.Read(list.Items)
}
