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

// launchTag is the tag that carries a launch id.
const launchTag = catalog.LaunchAnnotation

// Evidence is what is known of a cluster.
type Evidence struct {
	// Pods are the histories of all that there were.
	Pods []observe.Pod
	// Nodes are the histories of all that there were.
	Nodes []observe.Node
	// Claims are the histories of all NodeClaims that there were.
	Claims []observe.Claim
	// Instances are all that were ever launched.
	Instances []aws.Instance
	// Effects of the processes, in order.
	Effects []tap.Effect
	// Logs are what the processes printed, by name.
	Logs map[string]string
	// Secrets are what must not be in there.
	Secrets []string
}

// live returns for the id of each instance whether it lives.
func (e *Evidence) live() map[string]bool {
	out := make(map[string]bool, len(e.Instances))
	for _, i := range e.Instances {
		out[i.ID] = i.Live()
	}
	return out
}

// instanceID returns the id of the NodeClaim's instance; empty for none.
func instanceID(c observe.Claim) string {
	id := c.Object.Status.ProviderID
	return id[strings.LastIndexByte(id, '/')+1:]
}

// rule finds what contradicts it.
type rule func(*Evidence) []string

// Always returns what must not be at any moment.
func Always(e Evidence) []string {
	return apply(&e, onePerLaunch, onePerClaim, guardedInstances, promisedOnce, bindable, protectedStay, emptyMeansEmpty, neverForced, leaderOnly, noSecrets, launchesOfOwners)
}

// Settled returns what must not be once everything has come to rest, Always included.
func Settled(e Evidence) []string {
	return append(Always(e), apply(&e, ownedInstances, livingClaims, knownNodes, placedPods)...)
}

func apply(e *Evidence, rules ...rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r(e)...)
	}
	return out
}

// onePerLaunch: no launch buys more than the claims that it was for, those that were deleted since included. Instances of theirs that
// nobody took yet, and of a launch whose claims have gone on to another one, must be on their way out, which Settled sees.
func onePerLaunch(e *Evidence) []string {
	claims := map[string]int{}
	for _, c := range e.Claims {
		claims[c.Object.Annotations[catalog.LaunchAnnotation]]++
	}
	live := map[string]int{}
	for _, i := range e.Instances {
		if id := i.Tags[launchTag]; id != "" && i.Live() {
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

// onePerClaim: no two claims have one instance.
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

// promisedOnce: no pod is in the promises of two NodeClaims that stay, launched or not: each would keep room for it.
func promisedOnce(e *Evidence) []string {
	var out []string
	promised := map[string]string{}
	for _, c := range e.Claims {
		if c.Leaving.Seen() || c.Deleted.Seen() {
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

// bindable: of the pods of one owner, no two are refused by a kubelet.
func bindable(e *Evidence) []string {
	var out []string
	refused := map[types.UID]string{}
	for _, p := range e.Pods {
		s := p.Object.Status
		if s.Phase != corev1.PodFailed || !strings.HasPrefix(s.Reason, "OutOf") && s.Reason != "NodeAffinity" && s.Reason != "UnexpectedAdmissionError" {
			continue
		}
		for _, o := range p.Object.OwnerReferences {
			if before, twice := refused[o.UID]; twice {
				out = append(out, fmt.Sprintf("pod %s was refused after %s of the same %s %s: %s %s", p.Object.Name, before, o.Kind, o.Name, s.Reason, s.Message))
			}
			refused[o.UID] = p.Object.Name
		}
	}
	return out
}

// byName finds the history that an effect is about: the names of pods are never used twice here.
func byName(pods []observe.Pod) map[string]observe.Pod {
	out := make(map[string]observe.Pod, len(pods))
	for _, p := range pods {
		out[p.Object.Namespace+"/"+p.Object.Name] = p
	}
	return out
}

// moved calls about for each pod that a launcher asked to leave, by eviction or by deletion.
func (e *Evidence) moved(effect string, about func(p observe.Pod) string) []string {
	var out []string
	pods := byName(e.Pods)
	for _, f := range e.Effects {
		if f.Name != effect || !strings.HasPrefix(f.Process, "launcher") || !f.Done() {
			continue
		}
		if p, known := pods[f.Object]; known {
			if wrong := about(p); wrong != "" {
				out = append(out, fmt.Sprintf("effect %d of %s: %s of %s: %s", f.Number, f.Process, effect, f.Object, wrong))
			}
		}
	}
	return out
}

// protectedStay: no pod that says do-not-disrupt is evicted. One that never ran is given back by a node that was to leave before its
// kubelet came.
func protectedStay(e *Evidence) []string {
	empty := neverJoined(e)
	return e.moved("create pods/eviction", func(p observe.Pod) string {
		givenBack := !p.Running.Seen() && empty[p.Object.Spec.NodeName]
		if !givenBack && disruption.ProtectionOf(p.Object, time.Time{}).Active {
			return "it says do-not-disrupt"
		}
		return ""
	})
}

// neverJoined are the names of the nodes whose kubelet had not come when their NodeClaims were to leave.
func neverJoined(e *Evidence) map[string]bool {
	out := map[string]bool{}
	leaving := map[string]observe.Claim{}
	for _, c := range e.Claims {
		if name := c.Object.Status.NodeName; name != "" && c.Leaving.Seen() {
			leaving[name], out[name] = c, true
		}
	}
	for _, n := range e.Nodes {
		if c, leaves := leaving[n.Object.Name]; leaves && n.Joined.Before(c.Leaving) {
			out[n.Object.Name] = false
		}
	}
	return out
}

// emptyMeansEmpty: a node that goes because it is empty has no pod to evict.
func emptyMeansEmpty(e *Evidence) []string {
	empty := map[string]string{}
	for _, c := range e.Claims {
		if condition := c.Object.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); condition.IsTrue() && condition.Reason == "empty" {
			empty[c.Object.Status.NodeName] = c.Object.Name
		}
	}
	return e.moved("create pods/eviction", func(p observe.Pod) string {
		if claim := empty[p.Object.Spec.NodeName]; p.Object.Spec.NodeName != "" && claim != "" {
			return fmt.Sprintf("it was on NodeClaim %s, which goes because it is empty", claim)
		}
		return ""
	})
}

// neverForced: only pods of a node that never ran them, or that is gone, are deleted and not evicted.
func neverForced(e *Evidence) []string {
	gone := map[string]bool{}
	for _, i := range e.Instances {
		gone[i.PrivateDNSName] = !i.Live()
	}
	return e.moved("delete pods", func(p observe.Pod) string {
		if p.Running.Seen() && p.Object.Spec.NodeName != "" && !gone[p.Object.Spec.NodeName] {
			return "it ran, and its node is there"
		}
		return ""
	})
}

// leaderOnly: after another scheduler has the Lease, a pair does nothing more.
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

// replicaOf is what the two processes of a pair have in common in their names: nothing for the first, 2 for the second.
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
