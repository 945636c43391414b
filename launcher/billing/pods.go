package billing

import (
	"context"
	"fmt"
	"hash/maphash"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// podMemory keeps what the bill needs of the pods of each node, as long as they stay the same: of tens of thousands of pods few change between two
// observations.
type podMemory struct {
	seed maphash.Seed
	of   map[string]remembered
}

// remembered are the pods of one node. sum is a hash of their versions.
type remembered struct {
	sum  uint64
	pods []bill.Pod
}

func newPodMemory() podMemory { return podMemory{maphash.MakeSeed(), map[string]remembered{}} }

// on returns the pods of the claims' Nodes, and forgets those of others.
func (m *podMemory) on(ctx context.Context, from index.Pods, claims []*karpv1.NodeClaim) (map[string][]bill.Pod, error) {
	out, next := make(map[string][]bill.Pod, len(claims)), make(map[string]remembered, len(claims))
	for _, claim := range claims {
		name := claim.Status.NodeName
		if _, read := out[name]; read || name == "" {
			continue
		}
		pods, err := from.On(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("observing the cluster for the bill: %w", err)
		}
		now := remembered{sum: m.sum(pods)}
		if before, known := m.of[name]; known && before.sum == now.sum {
			now = before
		} else {
			now.pods = PodsOf(pods)
		}
		next[name], out[name] = now, now.pods
	}
	m.of = next
	return out, nil
}

// sum is the same for the same versions of the same pods, in any order.
func (m *podMemory) sum(pods []*corev1.Pod) uint64 {
	sum := uint64(len(pods))
	for _, pod := range pods {
		sum += maphash.Comparable(m.seed, [2]string{string(pod.UID), pod.ResourceVersion})
	}
	return sum
}
