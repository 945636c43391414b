package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// NodeLaunchable is the type of the condition that a pod has while no node is launched for it. Its status is False, its reason is
// Refusal.Code, and its message is JSON: the reasons of the Refusal.
const NodeLaunchable corev1.PodConditionType = "slipway.dev/NodeLaunchable"

// Codes of a Refusal. Where all NodePools have one reason, the code is that of the plan, such as TaintNotTolerated.
const (
	// CodeNoNodePoolFits means that each NodePool has its own reason.
	CodeNoNodePoolFits = "NoNodePoolFits"
	// CodeAwaitsGang means that pods of the gang have not come.
	CodeAwaitsGang = "AwaitsGang"
	// CodeNotLaunchable means that a new node would not help the pod.
	CodeNotLaunchable = "NotLaunchable"
	// CodeAwaitsTerminatingPod means that the pod gets the room of a pod that terminates.
	CodeAwaitsTerminatingPod = "AwaitsTerminatingPod"
	// CodeAsleep means that the pod's namespace sleeps.
	CodeAsleep = "Asleep"
	// CodeLauncherUnreachable means that there is no connection with the launcher.
	CodeLauncherUnreachable = "LauncherUnreachable"
	// CodeVersionMismatch means that launcher and scheduler are of releases that do not go together.
	CodeVersionMismatch = "VersionMismatch"
	// CodePlanningFailed means that planning the pod failed.
	CodePlanningFailed = "PlanningFailed"
	// CodeLaunchDelayed means that the last nodes launched for the pod, or for pods of its owner, ran none of them, or that its gang gave
	// them back.
	CodeLaunchDelayed = "LaunchDelayed"
)

const (
	// maxReasons bounds the reasons in one message: each watcher of pods receives a pod's conditions in full.
	maxReasons = 20
	// maxEncoded bounds the bytes of the condition's message, for the same reason.
	maxEncoded = 8 << 10
	// maxNames bounds the NodePools of one reason that Text names.
	maxNames = 5
)

// Refusal is why no node is launched for a pod. It is zero for a pod that has a place.
type Refusal struct {
	// Code is one CamelCase word: the reason of the condition NodeLaunchable.
	Code string `json:"-"`
	// Reasons that decided, at most maxReasons.
	Reasons []Reason `json:"reasons,omitempty"`
	// More is the number of reasons that were left out.
	More int `json:"more,omitempty"`
}

// Reason is one reason of a Refusal.
type Reason struct {
	// NodePools that have this reason. It is empty for a reason that holds for all.
	NodePools []string `json:"nodePools,omitempty"`
	// Code is that of the plan, see plan.Reason. It is empty for what no plan decided.
	Code string `json:"code,omitempty"`
	// Message for people. It is empty where the code says all.
	Message string `json:"message,omitempty"`
}

// Text returns the reason without its NodePools.
func (r Reason) Text() string {
	if r.Message == "" {
		return r.Code
	}
	return r.Message
}

// refusalOf returns the plan's reasons, NodePools of the same reason together.
func refusalOf(reasons []plan.Reason) Refusal {
	out := Refusal{Code: CodeNoNodePoolFits}
	// NodePools that the pod could have come first; those that it does not select or tolerate are seldom the ones to change.
	reasons = slices.Clone(reasons)
	slices.SortStableFunc(reasons, func(a, b plan.Reason) int { return cmp.Compare(remoteness(a), remoteness(b)) })
	for _, r := range reasons {
		one := Reason{Code: r.Code, Message: r.Message}
		i := slices.IndexFunc(out.Reasons, func(known Reason) bool { return known.Text() == one.Text() })
		if i < 0 {
			i = len(out.Reasons)
			out.Reasons = append(out.Reasons, one)
		}
		if known := &out.Reasons[i]; r.NodePool != "" && !slices.Contains(known.NodePools, r.NodePool) {
			known.NodePools = append(known.NodePools, r.NodePool)
		}
	}
	if len(out.Reasons) == 0 {
		out.Reasons = []Reason{{Code: plan.NotReady, Message: "there is no NodePool"}}
	}
	if code := out.Reasons[0].Code; code != "" && !slices.ContainsFunc(out.Reasons, func(r Reason) bool { return r.Code != code }) {
		out.Code = code
	}
	if n := len(out.Reasons) - maxReasons; n > 0 {
		out.Reasons, out.More = out.Reasons[:maxReasons], n
	}
	return out
}

// remoteness orders reasons by how far the pod is from the NodePool: it selects another one, does not tolerate its taint, or may have it.
func remoteness(r plan.Reason) int {
	switch r.Code {
	case plan.NotSelected:
		return 3
	case "TaintNotTolerated":
		return 2
	case "RequirementsConflict":
		return 1
	}
	return 0
}

// Text returns the refusal as it is in the condition PodScheduled and in Events. It is empty for the zero Refusal.
func (r Refusal) Text() string {
	var parts []string
	for _, reason := range r.Reasons {
		switch names := namesOf(reason.NodePools); len(reason.NodePools) {
		case 0:
			parts = append(parts, reason.Text())
		case 1:
			parts = append(parts, "NodePool "+names+": "+reason.Text())
		default:
			parts = append(parts, "NodePools "+names+": "+reason.Text())
		}
	}
	if r.More > 0 {
		parts = append(parts, "and "+catalog.CountText(r.More, "reason")+" more")
	}
	text := strings.Join(parts, "; ")
	switch {
	case text == "", r.Code == CodeAwaitsGang, r.Code == CodeAwaitsTerminatingPod, r.Code == CodeAsleep:
		return text // The reason is a sentence of its own.
	case r.Code == CodeNotLaunchable:
		return "no node is launched: " + text
	}
	return "no node can be launched: " + text
}

// Alike reports whether both refusals have the same codes for the same NodePools. Their messages may differ.
func (r Refusal) Alike(other Refusal) bool {
	return r.Code == other.Code && r.More == other.More && slices.EqualFunc(r.Reasons, other.Reasons, func(a, b Reason) bool {
		return a.Code == b.Code && slices.Equal(a.NodePools, b.NodePools)
	})
}

// namesOf returns names as a list for people, the first five of more.
func namesOf(list []string) string {
	if n := len(list) - maxNames; n > 1 {
		return strings.Join(list[:maxNames], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(list, ", ")
}

// CutFrom returns the part of a message before the refusal's text, which is the scheduler's verdict. ok is false if the message
// does not end with that text.
func (r Refusal) CutFrom(message string) (verdict string, ok bool) {
	text := r.Text()
	if text == "" {
		return "", false
	}
	verdict, ok = strings.CutSuffix(message, text)
	if !ok {
		verdict, ok = strings.CutSuffix(message, capital(text))
	}
	return strings.TrimRight(verdict, " "), ok
}

// Encode returns reason and message of the condition NodeLaunchable. Reasons that are too long together are left out, the last ones
// first.
func (r Refusal) Encode() (reason, message string, err error) {
	for {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if err := e.Encode(r); err != nil {
			return "", "", fmt.Errorf("encoding condition %s, reason %s: %w", NodeLaunchable, r.Code, err)
		}
		if out.Len() <= maxEncoded || len(r.Reasons) == 0 {
			return r.Code, strings.TrimSpace(out.String()), nil
		}
		r.Reasons, r.More = r.Reasons[:len(r.Reasons)-1], r.More+1
	}
}

// Read returns why no node is launched for the pod, from its condition. ok is false if the pod has no such condition, if it has a
// node, or if the condition cannot be read: then the message of the condition PodScheduled is all that is known.
func Read(pod *corev1.Pod) (r Refusal, ok bool) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == NodeLaunchable })
	if i < 0 || pod.Spec.NodeName != "" {
		return Refusal{}, false
	}
	c := &pod.Status.Conditions[i]
	if c.Status != corev1.ConditionFalse || json.Unmarshal([]byte(c.Message), &r) != nil || len(r.Reasons) == 0 {
		return Refusal{}, false
	}
	r.Code = c.Reason
	return r, true
}
