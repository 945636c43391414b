package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// lately is how long a launch that failed is listed.
const lately = 15 * time.Minute

// maxNames bounds the NodeClaims that a Trouble names.
const maxNames = 5

// Trouble is one error that launches end in.
type Trouble struct {
	// Waiting means that the NodeClaims wait and are tried again; otherwise EC2 refused them, and their pods are planned again.
	Waiting bool `json:"waiting"`
	// Reason is that of the condition Launched or of the Event.
	Reason string `json:"reason"`
	// Message is the latest with the Reason.
	Message string `json:"message"`
	// NodeClaims with it, by name.
	NodeClaims []string `json:"nodeClaims"`
	// Last is when a launch ended in it last; zero if Waiting.
	Last time.Time `json:"last,omitzero"`
}

// Troubles lists what launches wait for, and what EC2 refused lately by the Events, one entry for each reason.
func Troubles(in Objects) []Trouble {
	var out []Trouble
	add := func(t Trouble, claim string) {
		i := slices.IndexFunc(out, func(o Trouble) bool { return o.Waiting == t.Waiting && o.Reason == t.Reason && codeOf(o) == codeOf(t) })
		if i < 0 {
			out = append(out, t)
			i = len(out) - 1
		}
		if !t.Last.Before(out[i].Last) {
			out[i].Last, out[i].Message = t.Last, t.Message
		}
		if !slices.Contains(out[i].NodeClaims, claim) {
			out[i].NodeClaims = append(out[i].NodeClaims, claim)
		}
	}
	for _, claim := range in.NodeClaims {
		if c := pending(claim); c != nil {
			add(Trouble{Waiting: true, Reason: c.Reason, Message: c.Message}, claim.Name)
		}
	}
	for _, e := range in.Events {
		if at := eventTime(e); refusal(e) && !in.Now.IsZero() && in.Now.Sub(at) < lately {
			add(Trouble{Reason: e.Reason, Message: e.Message, Last: at}, e.InvolvedObject.Name)
		}
	}
	for i := range out {
		slices.Sort(out[i].NodeClaims)
	}
	slices.SortStableFunc(out, func(a, b Trouble) int {
		if a.Waiting != b.Waiting {
			return map[bool]int{true: -1, false: 1}[a.Waiting]
		}
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return out
}

// pending returns the condition of a NodeClaim whose launch waits to be tried again; nil for others.
func pending(claim *karpv1.NodeClaim) *status.Condition {
	c := conditions.Claim(claim, karpv1.ConditionTypeLaunched)
	if c != nil && c.IsUnknown() && c.Reason == ec2error.ReasonLaunchPending {
		return c
	}
	return nil
}

// codeOf returns the first word of what EC2 answered, which is its code: messages of one code differ in times and numbers.
func codeOf(t Trouble) string {
	code, _, _ := strings.Cut(strings.TrimPrefix(t.Message, ec2error.NoInstance), " ")
	return code
}

// refusal reports whether an Event says that a NodeClaim was not launched.
func refusal(e corev1.Event) bool {
	return e.InvolvedObject.Kind == "NodeClaim" && e.Type == corev1.EventTypeWarning && ec2error.IsLaunchEvent(e.Reason)
}

// Text returns the trouble in one line: what it is, which NodeClaims have it, and the message.
func (t Trouble) Text(now time.Time) string { return t.head(now) + ": " + t.Message }

// head returns what the trouble is, and which NodeClaims have it.
func (t Trouble) head(now time.Time) string {
	names := t.NodeClaims[:min(len(t.NodeClaims), maxNames)]
	text := strings.Join(names, ", ")
	if n := len(t.NodeClaims) - len(names); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	if t.Waiting {
		return "Waiting for EC2: " + text
	}
	return fmt.Sprintf("Not launched (%s, last %s ago): %s", t.Reason, age(now, t.Last), text)
}

// write prints a trouble as `slipway status` does.
func (t Trouble) write(out *printer, now time.Time) { out.printf("%s\n  %s\n", t.head(now), t.Message) }
