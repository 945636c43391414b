package static_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/static"
)

// TestDecide runs the files of testdata/decide. The input has one node per line, oldest first, with what is to be said of it: launched,
// initialized, drifted, deleting, protected, blocked, pods=N. scaled means that the NodePool was scaled down.
func TestDecide(t *testing.T) {
	datadriven.RunTest(t, "testdata/decide.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		f := static.Facts{Limit: static.NoLimit, Scaled: d.HasArg("scaled")}
		d.ScanArgs(t, "replicas", &f.Replicas)
		for name, into := range map[string]*int64{"limit": &f.Limit, "drifts": &f.Drifts} {
			if d.HasArg(name) {
				d.ScanArgs(t, name, into)
			}
		}
		for i, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			if line != "" {
				f.Nodes = append(f.Nodes, nodeOf(t, i, strings.Fields(line)))
			}
		}
		return show(static.Decide(f))
	})
}

func nodeOf(t *testing.T, age int, words []string) static.Node {
	t.Helper()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: words[0], CreationTimestamp: metav1.NewTime(time.Unix(int64(age), 0))}}
	n := static.Node{Claim: claim}
	for _, word := range words[1:] {
		switch word {
		case "launched", "initialized":
			claim.Status.ProviderID = "aws:///us-east-1a/i-" + claim.Name
			if word == "initialized" {
				claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
			}
		case "drifted":
			claim.StatusConditions().SetTrue(karpv1.ConditionTypeDrifted)
		case "deleting":
			n.Deleting = true
		case "protected":
			n.Protected = true
		case "blocked":
			n.Blocked = true
		default:
			if _, err := fmt.Sscanf(word, "pods=%d", &n.Pods); err != nil {
				t.Fatalf("unknown word %s", word)
			}
		}
	}
	return n
}

func show(d static.Decision) string {
	var out strings.Builder
	if d.Create > 0 || d.Full {
		fmt.Fprintf(&out, "create %d full=%t\n", d.Create, d.Full)
	}
	for what, claims := range map[string][]*karpv1.NodeClaim{"remove": d.Remove, "replaced": d.Replaced} {
		for _, c := range claims {
			fmt.Fprintf(&out, "%s %s\n", what, c.Name)
		}
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

// TestDecideReachesTheEnd drives fleets by the decisions, also while the budget or pods keep their drifted nodes at every other step: they end with their number
// of undrifted nodes, of which none was launched in vain, and never have more NodeClaims than their limit, nor more drifted ones terminating than the budget.
func TestDecideReachesTheEnd(t *testing.T) {
	for replicas := range int64(6) {
		for extra := int64(1); extra < 4; extra++ {
			for budget := int64(1); budget < 4; budget++ {
				for _, closed := range []string{"", "budget", "pods"} {
					fleet := &fleet{t: t, limit: replicas + extra, budget: budget, closed: closed}
					for range replicas + extra%2 {
						fleet.add(true)
					}
					fleet.run(replicas)
				}
			}
		}
	}
}

// fleet is a NodePool whose nodes are initialized a step after their creation, and are gone a step after their deletion.
type fleet struct {
	t             *testing.T
	limit, budget int64
	// closed is what keeps the drifted nodes at every other step; empty for nothing.
	closed string
	nodes  []static.Node
	made   int
}

func (f *fleet) add(drifted bool) {
	words := []string{fmt.Sprintf("n%d", f.made)}
	if drifted {
		words = append(words, "initialized", "drifted")
	}
	f.nodes = append(f.nodes, nodeOf(f.t, f.made, words))
	f.made++
}

func (f *fleet) run(replicas int64) {
	f.t.Helper()
	const steps = 100
	drifted := len(f.nodes)
	for i := range steps {
		deleting := int64(0)
		for _, n := range f.nodes {
			if n.Deleting {
				deleting++
			}
		}
		facts := static.Facts{Replicas: replicas, Limit: f.limit, Drifts: max(f.budget-deleting, 0), Nodes: slices.Clone(f.nodes)}
		for j := range facts.Nodes {
			facts.Nodes[j].Blocked = f.closed == "pods" && i%2 == 1
		}
		if f.closed == "budget" && i%2 == 1 {
			facts.Drifts = 0
		}
		d := static.Decide(facts)
		if f.done(replicas) {
			if f.made != drifted+int(replicas) {
				f.t.Errorf("%d nodes were launched for %d, with %q closed now and then", f.made-drifted, replicas, f.closed)
			}
			if got := show(d); got != "nothing\n" {
				f.t.Fatalf("a fleet at its end is not left alone: %s", got)
			}
			return
		}
		if int64(len(d.Replaced))+deleting > f.budget {
			f.t.Fatalf("%d drifted nodes terminate at once where the budget allows %d", int64(len(d.Replaced))+deleting, f.budget)
		}
		f.step(d)
		if int64(len(f.nodes)) > f.limit {
			f.t.Fatalf("%d NodeClaims where the limit is %d", len(f.nodes), f.limit)
		}
	}
	f.t.Fatalf("not at its end after %d steps: replicas %d, limit %d, budget %d, %d nodes", steps, replicas, f.limit, f.budget, len(f.nodes))
}

func (f *fleet) done(replicas int64) bool {
	for _, n := range f.nodes {
		if n.Deleting || n.Claim.StatusConditions().IsTrue(karpv1.ConditionTypeDrifted) || !n.Claim.StatusConditions().IsTrue(karpv1.ConditionTypeInitialized) {
			return false
		}
	}
	return int64(len(f.nodes)) == replicas
}

// step lets time go by, and then does what was decided.
func (f *fleet) step(d static.Decision) {
	ending := map[string]bool{}
	for _, c := range append(d.Remove, d.Replaced...) {
		ending[c.Name] = true
	}
	var left []static.Node
	for _, n := range f.nodes {
		if n.Deleting {
			continue
		}
		n.Claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
		n.Deleting = ending[n.Claim.Name]
		left = append(left, n)
	}
	f.nodes = left
	for range d.Create {
		f.add(false)
	}
}
