package parity_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// occupies reports whether the pod has to move when its node is given up.
func occupies(p *corev1.Pod) bool {
	kind := ""
	if len(p.OwnerReferences) > 0 {
		kind = p.OwnerReferences[0].Kind
	}
	return kind != "DaemonSet" && kind != "Node" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// testMarket is the small market of the simulation's own tests.
func testMarket(t *testing.T) *market.Market {
	t.Helper()
	var files market.Files
	for name, text := range map[string]*[]byte{"instance-types": &files.InstanceTypes, "prices": &files.Prices, "zones": &files.Zones} {
		var err error
		if *text, err = os.ReadFile("../../../plugin/simulate/testdata/market/" + name + ".json"); err != nil {
			t.Fatal(err)
		}
	}
	m, err := market.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// simulationGives returns the names of the nodes that go in the first step of a simulation, and why the others stay.
func simulationGives(t *testing.T, m *market.Market, f *fleet) (goes []string, kept string) {
	t.Helper()
	saving, err := simulate.Consolidate(t.Context(), f.input(), m, simulate.ConsolidateOptions{
		Options: simulate.Options{Now: noon()}, Consolidate: consolidate.DefaultOptions(), DisruptBare: f.disruptBare,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range saving.Moves {
		for _, n := range move.Nodes {
			if move.Step == 1 {
				goes = append(goes, n.Name)
			}
		}
	}
	for _, k := range saving.Kept {
		kept += "\n\t" + k.Node + ": " + k.Reason
	}
	slices.Sort(goes)
	return goes, kept
}

// TestSimulationPromisesWhatTheLauncherDoes gives each fleet of rules to both. The name of a rule ends with the nodes of the
// NodePool default that go.
func TestSimulationPromisesWhatTheLauncherDoes(t *testing.T) {
	m := testMarket(t)
	all := rules()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			_, after, ok := strings.Cut(name, ": ")
			if !ok {
				t.Fatal("the name does not say which nodes go")
			}
			want := []string{"always"}
			if after != "none" {
				want = append(want, strings.Split(after, " and ")...)
			}
			f := newFleet()
			all[name](f)
			promised, kept := simulationGives(t, m, f)
			gives := launcherGives(t, f)
			if !slices.Equal(gives, want) {
				t.Errorf("the launcher gives up %v, want %v", gives, want)
			}
			if !slices.Equal(promised, gives) {
				t.Errorf("the simulation promises %v, the launcher gives up %v; in the simulation these stay:%s", promised, gives, kept)
			}
		})
	}
}

// TestRandomFleets has several rules at once apply to random nodes.
func TestRandomFleets(t *testing.T) {
	m := testMarket(t)
	all := rules()
	names := slices.Sorted(maps.Keys(all))
	went := 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 17))
		f := newFleet()
		for i := range 3 {
			f.others = append(f.others, newMember("more-"+string(rune('a'+i)), "default"))
		}
		var applied []string
		for range 1 + rng.IntN(3) {
			// A rule changes the subject and the third node; any two of the NodePool's nodes may be these.
			nodes := append([]*member{f.subject, f.third}, f.others[1:]...)
			rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
			f.subject, f.third, f.others = nodes[0], nodes[1], append(f.others[:1:1], nodes[2:]...)
			name := names[rng.IntN(len(names))]
			applied = append(applied, f.subject.node.Name+" "+name)
			all[name](f)
		}
		promised, kept := simulationGives(t, m, f)
		gives := launcherGives(t, f)
		went += len(gives)
		if !slices.Equal(promised, gives) {
			t.Fatalf("seed %d (%s): the simulation promises %v, the launcher gives up %v; in the simulation these stay:%s",
				seed, strings.Join(applied, "; "), promised, gives, kept)
		}
	}
	if went < 200 {
		t.Errorf("%d nodes of all fleets went: the fleets show too little", went)
	}
}

// minutes is a duration.
func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }
