package edits_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/edits"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write what comes out into the scenario files")
	os.Exit(m.Run())
}

// found returns the edits for the objects of a text.
func found(t *testing.T, objects []byte) []edits.Unplaced {
	t.Helper()
	m, err := market.Read(market.Files{})
	if err != nil {
		t.Fatal(err)
	}
	r := input.NewReader()
	if err := r.Read("input.yaml", objects); err != nil {
		t.Fatal(err)
	}
	w := edits.World{Objects: r.Finish(), Market: m}
	outcome, err := simulate.Run(t.Context(), w.Objects, m, w.Options)
	if err != nil {
		t.Fatal(err)
	}
	list, err := edits.Find(t.Context(), w, outcome, "")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Each scenario's classes have these edits, which the planner has checked.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(a.Comment), "# ") || len(a.Files) != 2 {
				t.Fatal("a comment that says what it shows, input.yaml and want are expected")
			}
			var got strings.Builder
			for _, u := range found(t, a.Files[0].Data) {
				fmt.Fprintf(&got, "%s %s, %d pods:\n", u.Namespace, u.Owner, u.Count)
				if len(u.Edits) == 0 {
					fmt.Fprintln(&got, "  no single edit helps")
				}
				for _, e := range u.Edits {
					fmt.Fprintf(&got, "  %s: %s: %s\n", e.Object, e.Field, e)
				}
			}
			want := string(a.Files[1].Data)
			a.Files[1].Data = []byte(got.String())
			if flag.Lookup("rewrite").Value.String() == "true" {
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("the edits differ (-want +got):\n%s", diff)
			}
		})
	}
}

// A search asks the planner a bounded number of times, and returns what it has found when its time ends.
func TestSearchIsBounded(t *testing.T) {
	pod := &corev1.Pod{}
	for i := range 100 {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{TopologyKey: fmt.Sprint(i), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{}})
	}
	class, checks := edits.Class{Pod: pod, Owner: "Pod a/b", Reasons: []plan.Reason{{Code: "SpreadUnsatisfiable"}}}, 0
	list, complete, err := edits.Search(t.Context(), class, edits.Pools{}, func(context.Context, edits.Change) (edits.Placed, error) {
		checks++
		return edits.Placed{}, nil
	})
	if len(list) != 0 || !complete || err != nil || checks != 24 {
		t.Errorf("%d edits after %d checks, complete: %t (%v)", len(list), checks, complete, err)
	}
	checks = 0
	list, complete, err = edits.Search(t.Context(), class, edits.Pools{}, func(context.Context, edits.Change) (edits.Placed, error) {
		if checks++; checks > 2 {
			return edits.Placed{}, fmt.Errorf("planning was cut short: %w", context.DeadlineExceeded)
		}
		return edits.Placed{All: true}, nil
	})
	if len(list) != 2 || complete || err != nil {
		t.Errorf("%d edits when the time ended, complete: %t (%v)", len(list), complete, err)
	}
}

// Edits are searched for the 20 largest classes. The others are listed without any, and their pods are counted below the edits.
func TestSmallerClassesAreListed(t *testing.T) {
	var objects strings.Builder
	for i := range 22 {
		fmt.Fprintf(&objects, "apiVersion: v1\nkind: Pod\nmetadata: {name: p%02d}\nspec: {containers: [{name: main, resources: {requests: {cpu: %d}}}]}\n---\n", i, 1000+i)
	}
	m, err := market.Read(market.Files{})
	if err != nil {
		t.Fatal(err)
	}
	r := input.NewReader()
	if err := r.Read("input.yaml", []byte(objects.String())); err != nil {
		t.Fatal(err)
	}
	w := edits.World{Objects: r.Finish(), Market: m}
	outcome, err := simulate.Run(t.Context(), w.Objects, m, w.Options)
	if err != nil {
		t.Fatal(err)
	}
	list, err := edits.Find(t.Context(), w, outcome, "")
	if err != nil || len(list) != 22 || list[19].Unsearched || !list[20].Unsearched || !list[21].Unsearched {
		t.Errorf("%d classes (%v): %+v", len(list), err, list)
	}
	var out strings.Builder
	if err := edits.Write(t.Context(), &out, w, outcome, ""); err != nil || !strings.HasSuffix(out.String(), "Edits for 2 pods of smaller classes were not looked for.\n") {
		t.Errorf("%v, the text is\n%s", err, out.String())
	}
}
