package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// figures are what tests have measured, by the names of the tests. They are safe for concurrent use.
type figures struct {
	mu   sync.Mutex
	said map[string]string
}

// measured logs a figure of the test, which is also in the table of `make hostile`.
func (c *cluster) measured(t *testing.T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	t.Log(text)
	c.figures.mu.Lock()
	defer c.figures.mu.Unlock()
	if c.figures.said == nil {
		c.figures.said = map[string]string{}
	}
	c.figures.said[t.Name()] = text
}

// figure is what a test, or one of its subtests, has measured.
func (c *cluster) figure(test string) string {
	c.figures.mu.Lock()
	defer c.figures.mu.Unlock()
	var found []string
	for name, text := range c.figures.said {
		if name == test || strings.HasPrefix(name, test+"/") {
			found = append(found, text)
		}
	}
	slices.Sort(found)
	return strings.Join(found, "; ")
}

// siege is a namespace whose editor attacks, and another one whose pods run on nodes of the same NodePool.
type siege struct {
	*world
	other *world
	// editor may edit the first namespace and nothing else.
	editor client.Client
	// alone is how long the other namespace's pods take without an attack, launches how many launches there were.
	alone    time.Duration
	launches int
}

// victims is the number of pods of each launch of the other namespace.
const victims = 5

// newSiege measures a launch without an attack.
func newSiege(t *testing.T) *siege {
	t.Helper()
	s := &siege{world: newWorld(t, "siege")}
	s.pool("siege", func(p *karpv1.NodePool) { require(p, karpv1.CapacityTypeLabelKey, "on-demand") })
	s.editor, s.other = s.tenant(), newTenant(t, "siege-other")
	// The first launch waits for what all later ones find done.
	s.launch()
	s.alone = s.launch()
	return s
}

// launch is how long a Deployment of the other namespace takes from its creation until its pods run on new nodes.
func (s *siege) launch() time.Duration {
	s.t.Helper()
	s.launches++
	name := fmt.Sprintf("web-%d", s.launches)
	spec := s.podSpec("1500m", "500Mi", apart(name))
	return s.other.launched(victims*s.launches, func() { s.other.deployment(name, victims, spec) })
}

// most is how long a launch of the other namespace may take during an attack.
func (s *siege) most() time.Duration { return mostBeside(s.alone) }

// judge fails the test if a launch during an attack took too long. One that did is also compared with a launch after the attack: the
// machine may have become busy since the first.
func (s *siege) judge(t *testing.T, what string, took time.Duration) {
	t.Helper()
	if took > s.most() {
		s.deletePods()
		s.alone = max(s.alone, s.launch())
	}
	shared.measured(t, "%s; other pods ran after %.1f s, alone %.1f s, at most %.1f s", what, took.Seconds(), s.alone.Seconds(), s.most().Seconds())
	if took > s.most() {
		t.Errorf("pods of another namespace ran after %v, at most %v is allowed", took, s.most())
	}
}

// unhindered measures a launch of the other namespace, and fails the test if the attack delays it.
func (s *siege) unhindered(t *testing.T, what string) {
	t.Helper()
	took := s.launch()
	s.judge(t, what, took)
	for _, e := range s.other.events("FailedScheduling") {
		if strings.Contains(e.Message, "planning this pod failed") || strings.Contains(e.Message, "launches in a row failed") {
			t.Errorf("pod %s: %s", e.InvolvedObject.Name, e.Message)
		}
	}
}

// attack creates objects as the editor.
func (s *siege) attack(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := persist(t.Context(), func() error { return client.IgnoreAlreadyExists(s.editor.Create(t.Context(), o)) }); err != nil {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// attack is what TestHostile runs.
type attack struct {
	// name has the finding's number; bound says what the attack may do to others at most.
	name, bound string
	// own is the test that has the attack in its full size. It runs in `make e2e` by itself.
	own func(*testing.T)
	// run is the attack where it has no such test.
	run func(*siege, *testing.T)
	// long means that the short form leaves it out.
	long bool
}

func attacks() []attack {
	const delay = "others wait at most 4 times as long, and 10 s"
	return []attack{
		{name: "C1 four pods with 8,000 soft constraints each", bound: delay, own: TestHostilePodsHoldUpNoOtherPodsAlone},
		{name: "C2 twelve pods that name sold-out types", bound: "others get nodes of other types first", own: TestSoldOutTypesHoldUpNoOtherPodsAlone},
		{name: "H1 a mirror pod and a rejected pod", bound: "nothing is learned", own: TestTenantTeachesNothing},
		{name: "H2 thousands of resources of zero", bound: "metrics answer 200, at most 1 MB", own: TestMetricsWhateverPodsAskFor},
		{name: "H3 quantities beyond 64 bits", bound: "none is bound or launched for; " + delay, run: (*siege).quantities},
		{name: "H4 a running pod with 8,000 soft constraints", bound: "the scheduler takes at most half a core", run: (*siege).constrained, long: true},
		{name: "M3 pods of owners that do not exist", bound: delay, run: (*siege).orphans},
		{name: "M4 600 pods with names of 253 characters", bound: "annotations of at most 128 KiB", own: TestHostileNames},
		{name: "L6 pods that are not to be disrupted", bound: "the policy for tenants refuses them", own: TestTenantPolicy},
		{name: "L7 thousands of pods that fit nowhere", bound: "others are told at most 10 s later", run: (*siege).flood},
		{name: "the Lease of a Karpenter that is not there", bound: delay, run: (*siege).karpenter},
		{name: "a DaemonSet that is larger than any node", bound: delay, run: (*siege).daemons},
		{name: "LimitRange that doubles a daemon's requests", bound: "at most two nodes for one pod", own: TestLimitRangeOfDaemonPods},
	}
}

// A user who may edit one namespace attacks, and the table says what that did to others: what was measured, and what is allowed at most.
func TestHostile(t *testing.T) {
	if !*allHostile {
		t.Parallel()
	}
	s := newSiege(t)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ATTACK\tOK\tTOOK\tBOUND\tMEASURED")
	for _, a := range attacks() {
		if (a.run == nil || a.long) && !*allHostile {
			continue
		}
		begin, ran := time.Now(), false
		ok := t.Run(a.name, func(t *testing.T) {
			ran = true
			if a.run == nil {
				// A test that is parallel ends before its parent does.
				t.Run("own", a.own)
				return
			}
			s.t, s.other.t = t, t
			a.run(s, t)
			s.deletePods()
		})
		s.t, s.other.t = t, t
		if !ran {
			continue // -run left it out.
		}
		verdict := map[bool]string{true: "yes", false: "NO"}[ok]
		measured := shared.figure(t.Name() + "/" + strings.ReplaceAll(a.name, " ", "_"))
		if measured == "" {
			t.Errorf("%s: nothing was measured", a.name)
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f s\t%s\t%s\n", a.name, verdict, time.Since(begin).Seconds(), a.bound, measured)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("what a user who may edit one namespace does to others:\n%s", table.String())
}
