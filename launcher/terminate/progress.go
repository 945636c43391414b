package terminate

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// named is the maximum number of pods in an Event.
const named = 5

// countPeriod is the least time between two writes of how many pods a drain waits for: they go one by one, on many nodes at once.
const countPeriod = 10 * time.Second

// progress says how far terminations are, in Events and in the condition Drained. A new process does not know what was said.
type progress struct {
	events announce.EventRecorder

	mu sync.Mutex
	// at is when a claim's condition was given a new count of pods.
	at map[claimID]time.Time
}

// ending is how far the end of an instance is.
type ending struct {
	// called means that EC2 terminates the instance, or has accepted to.
	called bool
	// zone is the ID of its zone if a zonal shift keeps it from being terminated, or from being seen as terminated; "" otherwise.
	zone string
	// known is false while it is not known whether a shift does.
	known bool
}

// event records an Event about the claim and its nodes.
func (p *progress) event(s *scope, kind, reason, format string, args ...any) {
	p.events.Eventf(s.claim, kind, reason, format, args...)
	for _, node := range s.nodes {
		p.events.Eventf(node, kind, reason, format, args...)
	}
}

// waiting says what the drain waits for. held is what holds up evictions.
func (p *progress) waiting(s *scope, plan disruption.DrainPlan, held string) {
	conditions := s.claim.StatusConditions()
	have := conditions.Get(karpv1.ConditionTypeDrained)
	message := fmt.Sprintf("%d pods are waiting to be evicted", plan.Waiting)
	if held != "" {
		message += "; " + held
		if have == nil || !strings.Contains(have.Message, held) {
			p.event(s, corev1.EventTypeNormal, "DisruptionWaitingReadiness", "Waiting on readiness to continue disruption: %s", held)
		}
	}
	if len(plan.Protected) == 0 {
		message = p.newer(s.claim, have, message, s.now)
	} else {
		message += "; do-not-disrupt holds " + names(plan.Protected)
		if have == nil || have.Message != message {
			p.event(s, corev1.EventTypeWarning, "FailedDraining", "Failed to drain node, %s", message)
		}
	}
	conditions.SetUnknownWithReason(karpv1.ConditionTypeDrained, "Draining", message)
}

// terminating says that the instance terminates, or what holds that up: a zonal shift away from its zone, or EC2, whose refusal is in refused from time to
// time. While the condition is True the instance counts as one that costs nothing any more: it is so from the request on, and no longer where EC2 refuses
// that. A new process knows of an earlier one's request by the condition alone, and leaves it as it is until it knows more.
func (p *progress) terminating(s *scope, instanceID string, at ending, refused string) {
	const kind = karpv1.ConditionTypeInstanceTerminating
	conditions := s.claim.StatusConditions()
	have := conditions.Get(kind)
	if refused != "" {
		p.event(s, corev1.EventTypeWarning, "FailedTermination", "Failed to terminate instance %s, trying again, %s", instanceID, refused)
		if !at.called {
			conditions.SetUnknownWithReason(kind, disruption.TerminationFailed, refused)
		}
		return
	}
	if !at.known {
		return
	}
	if at.zone == "" {
		if at.called || have == nil {
			conditions.SetTrue(kind)
		}
		return
	}
	set, message := conditions.SetUnknownWithReason, fmt.Sprintf("Instance %s is terminated once no zonal shift is away from zone %s any more", instanceID, at.zone)
	if at.called || have.IsTrue() {
		set, message = conditions.SetTrueWithReason, fmt.Sprintf("Whether instance %s has terminated is seen once no zonal shift is away from zone %s any more", instanceID, at.zone)
	}
	if have == nil || have.Message != message {
		p.event(s, corev1.EventTypeNormal, "AwaitingZonalShift", "%s", message)
	}
	set(kind, string(ec2error.ZonalShift), message)
}

// newer returns the message that the condition is to have: the one that it has, if the other begins with another number alone and it is too early to
// write that.
func (p *progress) newer(claim *karpv1.NodeClaim, have *status.Condition, message string, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.at[idOf(claim)]) >= countPeriod {
		p.at[idOf(claim)] = now
		return message
	}
	if have != nil && have.Reason == "Draining" && afterCount(have.Message) == afterCount(message) {
		return have.Message
	}
	return message
}

// afterCount returns what follows the number with which a message begins.
func afterCount(message string) string {
	_, after, _ := strings.Cut(message, " ")
	return after
}

// forget drops the claims of that name: their drain has ended, or they are gone.
func (p *progress) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.at, func(id claimID, _ time.Time) bool { return id.name == name })
}

func names(pods []*corev1.Pod) string {
	var out []string
	for i, pod := range pods {
		if i == named {
			out = append(out, fmt.Sprintf("and %d more", len(pods)-named))
			break
		}
		out = append(out, pod.Namespace+"/"+pod.Name)
	}
	return strings.Join(out, ", ")
}
