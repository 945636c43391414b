package aws

import (
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

const (
	// hibernationRefused is how long a launch without hibernation follows one that EC2 refused because of it.
	hibernationRefused = time.Hour
	// mostHibernationRefused is the number of refusals that are kept.
	mostHibernationRefused = 1000
)

// hibernation is what EC2 has refused to launch for hibernation. It is safe for concurrent use.
type hibernation struct {
	mu      sync.Mutex
	refused map[hibernationKey]hibernationRefusal
}

// hibernationKey is a class, and an instance type.
type hibernationKey struct{ class, instanceType string }

type hibernationRefusal struct {
	until time.Time
	text  string
}

func newHibernation() *hibernation {
	return &hibernation{refused: map[hibernationKey]hibernationRefusal{}}
}

// why returns why instances of the type cannot hibernate; empty if they can.
func (h *hibernation) why(class *awsv1.EC2NodeClass, f catalog.Facts, now time.Time) string {
	if reason := catalog.NoHibernation(fromec2.NodeClass(class), f); reason != "" {
		return reason
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.refused[hibernationKey{class.Name, f.Name}]; now.Before(r.until) {
		return r.text
	}
	return ""
}

// note records that EC2 refused to launch the type for hibernation, and what it said: the next launch is without it.
func (h *hibernation) note(class, instanceType, text string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, r := range h.refused {
		if now.After(r.until) {
			delete(h.refused, key)
		}
	}
	if len(h.refused) < mostHibernationRefused {
		h.refused[hibernationKey{class, instanceType}] = hibernationRefusal{now.Add(hibernationRefused), text}
	}
}
