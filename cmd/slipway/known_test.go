package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

const (
	plansOfCluster = "- {id: sp-cluster, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 28}\n"
	plansOfFile    = "- {id: sp-file, kind: ComputeSavingsPlan, usdPerHour: 2, discountPercent: 28}\n"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: name}, Data: data}
}

// A simulation of a cluster counts the commitments and interruptions that its launcher knows. A file is used instead, and a ConfigMap that cannot
// be read is said and left out.
func TestSimulationKnowsWhatTheLauncherKnows(t *testing.T) {
	learned := configMap("slipway-interruptions", map[string]string{
		interruption.LearnedKey: `{"through":"2026-03-04T12:00:00Z","seen":{"m5.large/us-east-1a":{"hours":200,"interruptions":2}}}`,
	})
	list := configMap("slipway-commitments", map[string]string{"commitments.yaml": plansOfCluster})
	const usesPlans, usesLearned = "commitments: those of ConfigMap own/slipway-commitments", "interruptions: those of ConfigMap own/slipway-interruptions"
	for name, c := range map[string]struct {
		objects   []client.Object
		forbidden bool
		given     market.Files
		plan      string
		seen      float64
		notes     []string
	}{
		"none":        {},
		"both":        {objects: []client.Object{learned, list}, plan: "sp-cluster", seen: 2, notes: []string{usesPlans, usesLearned}},
		"a file":      {objects: []client.Object{learned, list}, given: market.Files{Commitments: []byte(plansOfFile)}, plan: "sp-file", seen: 2, notes: []string{usesLearned}},
		"no right":    {objects: []client.Object{learned, list}, forbidden: true, notes: []string{usesPlans + " are left out: no right", usesLearned + " are left out: no right"}},
		"no list":     {objects: []client.Object{configMap("slipway-commitments", map[string]string{"commitments.yaml": "a: 1"})}, notes: []string{usesPlans + " are left out: "}},
		"no such key": {objects: []client.Object{configMap("slipway-commitments", nil)}, notes: []string{usesPlans}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fake.NewClientBuilder().WithObjects(c.objects...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
					if c.forbidden {
						return errors.New("no right")
					}
					return inner.Get(ctx, key, object, o...)
				},
			}).Build()
			from := c.given
			from.Now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
			k := known{reader: func() (client.Client, string, error) { return cluster, "", nil }, namespace: "own"}
			if err := k.add(t.Context(), &from); err != nil {
				t.Fatal(err)
			}
			m, err := market.Read(from)
			if err != nil {
				t.Fatal(err)
			}
			plan, seen := "", 0.0
			for _, one := range m.Commitments {
				plan = one.ID
			}
			if m.Interruptions != nil {
				seen = m.Interruptions.Seen[interruption.Offering{InstanceType: "m5.large", Zone: "us-east-1a"}].Interruptions
			}
			said := slices.EqualFunc(m.Notes[:len(c.notes)], c.notes, strings.HasPrefix)
			if plan != c.plan || seen != c.seen || !said || len(from.Notes) != len(c.notes) {
				t.Errorf("commitment %q, %g interruptions, notes %q", plan, seen, from.Notes)
			}
		})
	}
}
