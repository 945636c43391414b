package simulate_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// noon is when all consolidations of this file are decided.
func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// testMarket is the small market of testdata.
func testMarket(t *testing.T) *market.Market {
	t.Helper()
	m, err := market.Read(marketFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// marketFiles are the files of testMarket.
func marketFiles(t *testing.T) market.Files {
	t.Helper()
	var files market.Files
	for name, text := range map[string]*[]byte{"instance-types": &files.InstanceTypes, "prices": &files.Prices, "zones": &files.Zones} {
		var err error
		if *text, err = os.ReadFile("testdata/market/" + name + ".json"); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestConsolidateScenarios reads files with a section fleet, a line a node (see addNode), objects in YAML, and the table
// that is to come out.
func TestConsolidateScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/consolidate/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects, o, want := consolidation(t, a)
			m := testMarket(t)
			m.Commitments = commitments(t, a)
			m.Interruptions, m.InterruptionCost = interruptions(t, a), o.Consolidate.EvictionCost
			saving, err := simulate.Consolidate(t.Context(), objects, m, o)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := saving.Write(&out, "table"); err != nil {
				t.Fatal(err)
			}
			saving.WriteNotes(&out, objects)
			if diff := cmp.Diff(string(want.Data), out.String()); diff != "" && flag.Lookup("rewrite").Value.String() != "true" {
				t.Errorf("the table differs (-want +got):\n%s", diff)
			}
			if flag.Lookup("rewrite").Value.String() == "true" {
				want.Data = out.Bytes()
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			kept(t, objects, saving)
		})
	}
}

// interruptions are what was learned by the section of that name; nil without one.
func interruptions(t *testing.T, a *txtar.Archive) *interruption.Known {
	t.Helper()
	for _, f := range a.Files {
		if f.Name == "interruptions" {
			m, err := market.Read(market.Files{Interruptions: f.Data})
			if err != nil || len(m.Problems) > 0 {
				t.Fatalf("%v, %v", m.Problems, err)
			}
			return m.Interruptions
		}
	}
	return nil
}

// commitments are those of the scenario's section of that name.
func commitments(t *testing.T, a *txtar.Archive) []commitment.Commitment {
	t.Helper()
	for _, f := range a.Files {
		if f.Name != "commitments" {
			continue
		}
		out, faults, err := commitment.Parse(f.Data, noon())
		if err != nil || len(faults) > 0 {
			t.Fatalf("%v, %v", faults, err)
		}
		return out
	}
	return nil
}

// consolidation reads the scenario: its objects, its options and the section with the table.
func consolidation(t *testing.T, a *txtar.Archive) (objects *input.Objects, o simulate.ConsolidateOptions, want *txtar.File) {
	t.Helper()
	reader := input.NewReader()
	o = simulate.ConsolidateOptions{Options: simulate.Options{Now: noon()}, Consolidate: consolidate.DefaultOptions()}
	for i, f := range a.Files {
		switch f.Name {
		case "want":
			want = &a.Files[i]
		case "spot-to-spot":
			o.Consolidate.SpotToSpot = true
		case "pod-age":
			o.PodAge, o.PodAgeOfAll = parseAge(t, string(f.Data)), true
		case "commitments", "interruptions":
		case "fleet":
			for line := range strings.Lines(string(f.Data)) {
				addNode(t, reader, strings.Fields(line))
			}
		default:
			if err := reader.Read(f.Name, f.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want == nil || !strings.HasPrefix(string(a.Comment), "# ") {
		t.Fatal("the file has no section want, or no comment that says what it shows")
	}
	return reader.Finish(), o, want
}

// parseAge reads what --pod-age says.
func parseAge(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// addNode reads NAME POOL TYPE ZONE CAPACITY-TYPE APP=CPU,MEMORY*COUNT...: a node of a NodePool with pods of ReplicaSets.
func addNode(t *testing.T, r *input.Reader, fields []string) {
	t.Helper()
	if len(fields) == 0 {
		return
	}
	sizes := map[string][2]string{"c5.large": {"1930m", "3Gi"}, "m5.large": {"1930m", "7Gi"}, "m5.xlarge": {"3920m", "14Gi"}, "m5.2xlarge": {"7910m", "29Gi"}}
	name, size := fields[0], sizes[fields[2]]
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(size[0]), corev1.ResourceMemory: resource.MustParse(size[1]), corev1.ResourcePods: resource.MustParse("29"),
	}
	r.Add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon().Add(-24 * time.Hour)), Labels: map[string]string{
			karpv1.NodePoolLabelKey: fields[1], corev1.LabelInstanceTypeStable: fields[2], corev1.LabelTopologyZone: fields[3],
			karpv1.CapacityTypeLabelKey: fields[4], corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name,
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	})
	for _, field := range fields[5:] {
		app, rest, _ := strings.Cut(field, "=")
		size, times, _ := strings.Cut(rest, "*")
		cpu, memory, _ := strings.Cut(size, ",")
		n, err := strconv.Atoi(times)
		if err != nil {
			t.Fatalf("%s: APP=CPU,MEMORY*COUNT is expected", field)
		}
		for i := range n {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("%s-%s-%d", app, name, i), Labels: map[string]string{"app": app},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, Controller: new(true)}},
			}}
			pod.UID = types.UID("uid-" + pod.Name)
			pod.Spec.NodeName = name
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
			}}}
			pod.Status.Phase = corev1.PodRunning
			r.Add(pod)
		}
	}
}

// kept holds what every consolidation keeps to: the bill is what the moves promised, every pod has a place, no move costs
// more than it earns, and no node of a step is more than once in it.
func kept(t *testing.T, objects *input.Objects, s *simulate.Saving) {
	t.Helper()
	r := s.Result()
	promised := r.CostPerHour
	gone := map[string]bool{}
	for _, m := range r.Moves {
		promised -= m.SavingPerHour
		earns(t, m)
		for _, n := range m.Nodes {
			if gone[n.Name] {
				t.Errorf("node %s goes twice", n.Name)
			}
			gone[n.Name] = true
		}
		for pod, to := range m.Evictions {
			if to == "" || gone[to] {
				t.Errorf("pod %s moves to %q, which is gone", pod, to)
			}
		}
	}
	if diff := promised - r.CostPerHourThen; diff > 1e-9 || diff < -1e-9 {
		t.Errorf("the moves promised %v USD per hour, the nodes then cost %v", promised, r.CostPerHourThen)
	}
	for _, p := range objects.Pods {
		if p.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" && gone[p.Spec.NodeName] {
			t.Errorf("pod %s is not to be disrupted, and node %s goes", p.Name, p.Spec.NodeName)
		}
	}
}

// earns holds a move to what it must save. What an empty node saves may not be known.
func earns(t *testing.T, m simulate.MoveResult) {
	t.Helper()
	if m.SavingPerHour <= 0 && (len(m.Nodes) > 1 || m.Nodes[0].Price > 0) {
		t.Errorf("a move saves %v", m.SavingPerHour)
	}
	if want := consolidate.DefaultOptions().Payback.Seconds(); m.PaybackSeconds > want {
		t.Errorf("a move pays back after %v seconds, %v at most was asked", m.PaybackSeconds, want)
	}
}
