package invariants

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/tap"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// launchTag is the tag with the launch id.
const launchTag = catalog.LaunchAnnotation

// Evidence is what was recorded of a cluster.
type Evidence struct {
	// Pods are the histories of all pods.
	Pods []observe.Pod
	// Nodes are the histories of all Nodes.
	Nodes []observe.Node
	// Claims are the histories of all NodeClaims.
	Claims []observe.Claim
	// Instances are all instances ever launched.
	Instances []aws.Instance
	// Effects are those of the processes, in order.
	Effects []tap.Effect
	// Logs are the output of the processes, by name.
	Logs map[string]string
	// Secrets are texts that Logs must not contain.
	Secrets []string
}

// live returns whether each instance lives, by id.
func (e *Evidence) live() map[string]bool {
	out := make(map[string]bool, len(e.Instances))
	for _, i := range e.Instances {
		out[i.ID] = i.Live()
	}
	return out
}

// there returns whether each instance lives or is stopped, by id.
func (e *Evidence) there() map[string]bool {
	out := make(map[string]bool, len(e.Instances))
	for _, i := range e.Instances {
		out[i.ID] = i.Live() || i.Asleep()
	}
	return out
}

// instanceID returns the id of the NodeClaim's instance; empty for none.
func instanceID(c observe.Claim) string {
	id := c.Object.Status.ProviderID
	return id[strings.LastIndexByte(id, '/')+1:]
}

// rule returns the violations of one rule.
type rule func(*Evidence) []string

// Always returns the violations of the rules that hold at any moment.
func Always(e Evidence) []string {
	return apply(&e, onePerLaunch, onePerClaim, guardedInstances, promisedOnce, bindable, protectedStay, emptyMeansEmpty, neverForced, leaderOnly, noSecrets, launchesOfOwners, startedOnce)
}

// Settled returns the violations of the rules that hold once the cluster is at rest, including those of Always.
func Settled(e Evidence) []string {
	return append(Always(e), apply(&e, ownedInstances, livingClaims, knownNodes, placedPods, asleepWithoutNode)...)
}

func apply(e *Evidence, rules ...rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r(e)...)
	}
	return out
}

// onePerLaunch finds launches that bought more instances than they had NodeClaims, including deleted ones. It ignores
// launches whose NodeClaims have all moved to another launch. Settled reports their instances if they still live.
func onePerLaunch(e *Evidence) []string {
	claims := map[string]int{}
	for _, c := range e.Claims {
		claims[c.Object.Annotations[catalog.LaunchAnnotation]]++
	}
	live := map[string]int{}
	for _, i := range e.Instances {
		if id := i.Tags[launchTag]; id != "" && (i.Live() || i.Asleep()) {
			live[id]++
		}
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(live)) {
		if n := claims[id]; n > 0 && live[id] > n {
			out = append(out, fmt.Sprintf("launch %s: %d instances for %d NodeClaims", id, live[id], n))
		}
	}
	return out
}

// onePerClaim finds instances that belong to two NodeClaims.
func onePerClaim(e *Evidence) []string {
	var out []string
	owner := map[string]string{}
	for _, c := range e.Claims {
		id := c.Object.Status.ProviderID
		if id == "" {
			continue
		}
		if other, twice := owner[id]; twice {
			out = append(out, fmt.Sprintf("instance %s belongs to NodeClaims %s and %s", id, other, c.Object.Name))
		}
		owner[id] = c.Object.Name
	}
	return out
}

// promisedOnce finds pods that are promised to two NodeClaims, launched or not, of which neither is being deleted. Each
// would reserve resources for the pod.
func promisedOnce(e *Evidence) []string {
	var out []string
	promised := map[string]string{}
	for _, c := range e.Claims {
		if c.Terminating.Seen() || c.Deleted.Seen() {
			continue
		}
		for _, uid := range observe.PromisedTo(c) {
			if other, twice := promised[uid]; twice {
				out = append(out, fmt.Sprintf("pod %s is promised to NodeClaims %s and %s", uid, other, c.Object.Name))
			}
			promised[uid] = c.Object.Name
		}
	}
	return out
}

// bindable finds owners of which kubelets rejected more than one pod.
func bindable(e *Evidence) []string {
	var out []string
	rejected := map[types.UID]string{}
	for _, p := range e.Pods {
		s := p.Object.Status
		if s.Phase != corev1.PodFailed || !strings.HasPrefix(s.Reason, "OutOf") && s.Reason != "NodeAffinity" && s.Reason != "UnexpectedAdmissionError" {
			continue
		}
		for _, o := range p.Object.OwnerReferences {
			if before, twice := rejected[o.UID]; twice {
				out = append(out, fmt.Sprintf("pod %s was rejected after %s of the same %s %s: %s %s", p.Object.Name, before, o.Kind, o.Name, s.Reason, s.Message))
			}
			rejected[o.UID] = p.Object.Name
		}
	}
	return out
}

// byName maps names to histories. Names of pods are never reused here.
func byName(pods []observe.Pod) map[string]observe.Pod {
	out := make(map[string]observe.Pod, len(pods))
	for _, p := range pods {
		out[p.Object.Namespace+"/"+p.Object.Name] = p
	}
	return out
}

// moved calls violation for each pod that a launcher evicted or deleted, and returns what it finds.
func (e *Evidence) moved(effect string, violation func(p observe.Pod) string) []string {
	var out []string
	pods := byName(e.Pods)
	for _, f := range e.Effects {
		if f.Name != effect || !strings.HasPrefix(f.Process, "launcher") || !f.Done() {
			continue
		}
		if p, known := pods[f.Object]; known {
			if wrong := violation(p); wrong != "" {
				out = append(out, fmt.Sprintf("effect %d of %s: %s of %s: %s", f.Number, f.Process, effect, f.Object, wrong))
			}
		}
	}
	return out
}

// protectedStay finds evicted pods with do-not-disrupt. Exempt are pods that never ran and were bound to a node whose
// NodeClaim was deleted before its kubelet joined.
func protectedStay(e *Evidence) []string {
	empty := neverJoined(e)
	return e.moved("create pods/eviction", func(p observe.Pod) string {
		unstarted := !p.Running.Seen() && empty[p.Object.Spec.NodeName]
		if !unstarted && disruption.ProtectionOf(p.Object, time.Time{}).Active {
			return "it has the do-not-disrupt annotation"
		}
		return ""
	})
}

// neverJoined returns the names of nodes whose kubelet had not joined when the deletion of their NodeClaims was requested.
func neverJoined(e *Evidence) map[string]bool {
	out := map[string]bool{}
	terminating := map[string]observe.Claim{}
	for _, c := range e.Claims {
		if name := c.Object.Status.NodeName; name != "" && c.Terminating.Seen() {
			terminating[name], out[name] = c, true
		}
	}
	for _, n := range e.Nodes {
		if c, deleted := terminating[n.Object.Name]; deleted && n.Joined.Before(c.Terminating) {
			out[n.Object.Name] = false
		}
	}
	return out
}

// emptyMeansEmpty finds pods that were evicted from a node that was removed because it was empty.
func emptyMeansEmpty(e *Evidence) []string {
	empty := map[string]string{}
	for _, c := range e.Claims {
		if condition := c.Object.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); condition.IsTrue() && condition.Reason == "empty" {
			empty[c.Object.Status.NodeName] = c.Object.Name
		}
	}
	return e.moved("create pods/eviction", func(p observe.Pod) string {
		if claim := empty[p.Object.Spec.NodeName]; p.Object.Spec.NodeName != "" && claim != "" {
			return fmt.Sprintf("it was on NodeClaim %s, which was removed because it was empty", claim)
		}
		return ""
	})
}

// neverForced finds pods that were deleted instead of evicted, though they had run and their node's instance lived. Those of DaemonSets end when the instance of
// a standby buffer is stopped, which may live again by now.
func neverForced(e *Evidence) []string {
	ended, stops := map[string]bool{}, map[string]bool{}
	for _, c := range e.Claims {
		if c.Object.Annotations[catalog.StandbyAnnotation] != "" {
			stops[c.Object.Status.NodeName] = true
		}
	}
	for _, i := range e.Instances {
		ended[i.PrivateDNSName] = !i.Live()
	}
	return e.moved("delete pods", func(p observe.Pod) string {
		node := p.Object.Spec.NodeName
		if p.Running.Seen() && node != "" && !ended[node] && (!stops[node] || !disruption.OfDaemonSet(p.Object)) {
			return "it ran, and its node exists"
		}
		return ""
	})
}

// leaderOnly finds effects of a pair of processes after another pair's scheduler took the Lease.
func leaderOnly(e *Evidence) []string {
	var out []string
	leader, since := "", time.Time{}
	for _, f := range e.Effects {
		replica := replicaOf(f.Process)
		if strings.HasSuffix(f.Name, " leases") && f.Holder != "" && f.Done() && strings.HasPrefix(f.Process, "scheduler") {
			if since.IsZero() || leader != replica {
				leader, since = replica, f.Answered
			}
			continue
		}
		if since.IsZero() || replica == leader || strings.HasSuffix(f.Name, " events") || strings.HasSuffix(f.Name, " leases") {
			continue
		}
		if f.Done() && f.Arrived.After(since) {
			out = append(out, fmt.Sprintf("effect %d of %s: %s %s, %s after pair %q had taken the Lease", f.Number, f.Process, f.Name, f.Object,
				f.Arrived.Sub(since).Round(time.Millisecond), leader))
		}
	}
	return out
}

// replicaOf returns the suffix that the two processes of a pair have in common: empty for the first pair, 2 for the second.
func replicaOf(process string) string {
	_, replica, _ := strings.Cut(process, "-")
	return replica
}

func noSecrets(e *Evidence) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.Logs)) {
		for i, secret := range e.Secrets {
			if strings.Contains(e.Logs[name], secret) {
				out = append(out, fmt.Sprintf("secret %d is in the log of %s", i+1, name))
			}
		}
	}
	return out
}
