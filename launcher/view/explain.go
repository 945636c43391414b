package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// ExplainPod writes why a pod is pending, or where it runs and why: its state, the scheduler's message, the in-flight node that it waits
// for, what has happened so far, and its events. now is the time that ages refer to.
func ExplainPod(w io.Writer, pod *corev1.Pod, in Objects, events []corev1.Event, now time.Time) {
	fmt.Fprintf(w, "Pod %s/%s: %s\n", pod.Namespace, pod.Name, podState(pod))
	if c := conditions.Pod(pod, corev1.PodScheduled); c != nil && c.Status != corev1.ConditionTrue {
		fmt.Fprintf(w, "  %s, for %s:\n", cmp.Or(c.Reason, "Pending"), age(now, c.LastTransitionTime.Time))
		for line := range strings.SplitSeq(strings.TrimSpace(c.Message), "\n") {
			fmt.Fprintf(w, "    %s\n", line)
		}
	}
	if why := Unserved(pod, now); why != "" {
		fmt.Fprintf(w, "  %s.\n", why)
		if !slices.Contains(in.Unread, UnreadPods) {
			fmt.Fprintf(w, "  Schedulers that handle other pods: %s.\n", strings.Join(schedulers(in.Pods), ", "))
		}
	}
	claim := ClaimOf(pod, in)
	var node *corev1.Node
	if claim != nil {
		node = NodeOf(claim, in.Nodes)
		explainClaim(w, claim, node, now)
		writeEstimate(w, claim, in.NodeClaims, now)
		explainBinding(w, pod, claim)
		writeConditions(w, claim)
	} else if pod.Spec.NodeName == "" && !slices.Contains(in.Unread, UnreadNodeClaims) {
		fmt.Fprintln(w, "  No node is on its way for it.")
	}
	if len(in.Unread) > 0 {
		fmt.Fprintf(w, "  You may not list %s: what they say is left out.\n", strings.Join(in.Unread, ", "))
	}
	writeTimeline(w, PodTimeline(pod, claim, node, Stages(events)))
	if len(events) == 0 {
		return
	}
	fmt.Fprintln(w, "Events:")
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return eventTime(a).Compare(eventTime(b)) })
	for _, e := range events {
		fmt.Fprintf(w, "  %8s ago  %-16s %s\n", age(now, eventTime(e)), e.Reason, e.Message)
	}
}

// schedulers returns the names of schedulers that have handled pods, sorted.
func schedulers(pods []*corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		if name := pod.Spec.SchedulerName; conditions.Pod(pod, corev1.PodScheduled) != nil && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return []string{"none"}
	}
	return out
}

func podState(pod *corev1.Pod) string {
	switch {
	case pod.Status.Phase != corev1.PodPending:
		return fmt.Sprintf("%s on node %s", pod.Status.Phase, cmp.Or(pod.Spec.NodeName, "none"))
	case pod.Spec.NodeName != "":
		return "bound to node " + pod.Spec.NodeName + ", not running yet"
	case len(pod.Spec.SchedulingGates) > 0:
		return "held by its scheduling gates: slipway waits until they are removed"
	}
	return "pending"
}

// ClaimNamed returns the NodeClaim with the name, or whose node has it; nil for none, and for one of another provider.
func ClaimNamed(name string, claims []*karpv1.NodeClaim) *karpv1.NodeClaim {
	i := slices.IndexFunc(claims, func(c *karpv1.NodeClaim) bool { return c.Name == name || c.Status.NodeName == name })
	if i < 0 || provider.OthersClaim(claims[i]) {
		return nil
	}
	return claims[i]
}

// explainClaim describes a NodeClaim: what it is, what it costs and what it was launched for.
func explainClaim(w io.Writer, claim *karpv1.NodeClaim, node *corev1.Node, now time.Time) {
	row := newRow(claim, node)
	fmt.Fprintf(w, "NodeClaim %s: %s\n", claim.Name, row.State)
	price := "of no known price"
	if row.Price > 0 {
		price = catalog.USD(row.Price) + " USD per hour"
	}
	fmt.Fprintf(w, "  %s, %s in %s, %s, NodePool %s, created %s ago\n", row.InstanceType, row.CapacityType,
		row.Zone, price, row.NodePool, age(now, claim.CreationTimestamp.Time))
	if row.CoveredBy != "" {
		fmt.Fprintf(w, "  commitment %s paid for its instance when it was planned\n", row.CoveredBy)
	}
	if row.Cost.Total() > row.Cost.Instance {
		fmt.Fprintf(w, "  its price: %s\n", row.Cost)
	}
	if why := claim.Annotations[catalog.PassedOverAnnotation]; why != "" {
		fmt.Fprintf(w, "  not chosen: %s\n", why)
	}
	switch nodes := record.Replaces(claim); len(nodes) {
	case 0:
	case 1:
		fmt.Fprintf(w, "  launched for the pods of node %s\n", nodes[0])
	default:
		fmt.Fprintf(w, "  launched for the pods of nodes %s\n", strings.Join(nodes, ", "))
	}
}

// writeConditions prints the conditions of a NodeClaim.
func writeConditions(w io.Writer, claim *karpv1.NodeClaim) {
	for _, c := range claim.Status.Conditions {
		why := strings.TrimSpace(c.Reason + " " + c.Message)
		if c.Reason == c.Type { // What is True has its own name as the reason.
			why = c.Message
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-20s %-8s %s", c.Type, c.Status, why), " "))
	}
}

// explainBinding describes when the pod is bound, and why then.
func explainBinding(w io.Writer, pod *corev1.Pod, claim *karpv1.NodeClaim) {
	b, ok, err := record.BindingOf(claim, pod.UID)
	switch {
	case err != nil:
		fmt.Fprintf(w, "  when the pod is bound cannot be read: %v\n", err)
	case ok:
		when := map[string]string{
			"launch": "bound before the node boots", "ready": "bound the moment the node is ready", "scheduler": "bound by the scheduler, its room is kept",
		}
		fmt.Fprintf(w, "  the pod is %s: %s (%s)\n", cmp.Or(when[b.At], "bound at "+b.At), b.Why, b.Rule)
	}
}

// NodeOf returns the node of a NodeClaim; nil for none.
func NodeOf(claim *karpv1.NodeClaim, nodes []*corev1.Node) *corev1.Node {
	for _, node := range nodes {
		if claim.Status.NodeName != "" && node.Name == claim.Status.NodeName {
			return node
		}
	}
	return nil
}

// ExplainNode writes what a node costs, what has happened to it and why it ends. name is that of a NodeClaim or of a node. It returns an error
// where slipway has no such node.
func ExplainNode(w io.Writer, name string, in Objects) error {
	claim := ClaimNamed(name, in.NodeClaims)
	if claim == nil {
		if slices.ContainsFunc(in.Nodes, func(n *corev1.Node) bool { return n.Name == name }) ||
			slices.ContainsFunc(in.NodeClaims, func(c *karpv1.NodeClaim) bool { return c.Name == name }) {
			return fmt.Errorf("node %s: it has no NodeClaim with an EC2NodeClass, slipway does not manage it", name)
		}
		return fmt.Errorf("node %s: no NodeClaim and no node has this name", name)
	}
	node := NodeOf(claim, in.Nodes)
	rows := New(in).Nodes
	row := rows[slices.IndexFunc(rows, func(r NodeRow) bool { return r.NodeClaim == claim.Name })]
	fmt.Fprintf(w, "Node %s: %s\n", cmp.Or(row.Node, "not known yet"), row.State)
	if row.State == StateNotReady {
		fmt.Fprintf(w, "  %s\n", row.Why)
	}
	fmt.Fprintf(w, "  CPU %s and memory %s requested by %s", percent(row.CPU), percent(row.Memory), catalog.CountText(row.Pods, "pod"))
	if row.Promised > 0 {
		fmt.Fprintf(w, ", %d more wait for it", row.Promised)
	}
	fmt.Fprintln(w)
	explainClaim(w, claim, node, in.Now)
	writeEstimate(w, claim, in.NodeClaims, in.Now)
	writeConditions(w, claim)
	writeTimeline(w, NodeTimeline(claim, node))
	return nil
}

// writeTimeline prints each moment with the time since the first.
func writeTimeline(w io.Writer, moments []Moment) {
	if len(moments) == 0 {
		return
	}
	fmt.Fprintf(w, "Since %s:\n", moments[0].At.UTC().Format(time.RFC3339))
	for _, m := range moments {
		text := m.What
		if m.Detail != "" {
			text += ": " + m.Detail
		}
		fmt.Fprintf(w, "  %8s  %s\n", "+"+m.At.Sub(moments[0].At).Round(time.Second).String(), text)
	}
}
