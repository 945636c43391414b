package consolidate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// A pod counts twice at the age, more before, and hardly more than others long after; the moment it started counts, if it has.
func TestFresh(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const age = 30 * time.Minute
	for _, c := range []struct {
		name             string
		created, started time.Duration
		age              time.Duration
		want             float64
	}{
		{name: "nobody knows when it came", age: age, want: 1},
		{name: "as old as that", created: age, age: age, want: 2},
		{name: "half as old", created: age / 2, age: age, want: 3},
		{name: "half a day old", created: 12 * time.Hour, age: age, want: 1 + 1./24},
		{name: "a moment old", created: time.Second, age: age, want: 31},
		{name: "waited long, and started now", created: 12 * time.Hour, started: time.Second, age: age, want: 31},
		{name: "no age is asked for", created: time.Second, want: 1},
	} {
		pod := &corev1.Pod{}
		if c.created > 0 {
			pod.CreationTimestamp = metav1.NewTime(now.Add(-c.created))
		}
		if c.started > 0 {
			pod.Status.StartTime = new(metav1.NewTime(now.Add(-c.started)))
		}
		if got := consolidate.Fresh(pod, now, c.age); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A deletion cost raises or lowers the weight. One that is no finite number counts as none: a weight of NaN would decide every comparison wrongly.
func TestWeight(t *testing.T) {
	for cost, want := range map[string]float64{
		"": 1, "134217728": 2, "-134217728": 0, "-2147483648": 0, "1e300": 10, "NaN": 1, "nan": 1, "Inf": 1, "-Infinity": 1, "1e999": 1, "high": 1,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.PodDeletionCost: cost}}}
		if got := consolidate.Weight(pod); got != want {
			t.Errorf("deletion cost %q: %v, want %v", cost, got, want)
		}
	}
}

// Who has just been moved is not moved again for a saving for which an old pod would be.
func TestFreshPodsStay(t *testing.T) {
	for _, c := range []struct {
		fresh float64
		moves int
		kept  string
	}{{fresh: 0, moves: 1}, {fresh: 2, moves: 1}, {fresh: 61, kept: "pays back its cost"}} {
		fleet := []consolidate.Node{
			{Name: "a", Offer: offer(8), Policy: consolidate.WhenEmptyOrUnderutilized, Pods: []consolidate.Pod{{Name: "web/p", Weight: 1, Fresh: c.fresh}}},
			{Name: "b", Offer: offer(8), Policy: consolidate.WhenEmptyOrUnderutilized, Blocked: "it stays"},
		}
		d, err := consolidate.Decide(t.Context(), fleet, consolidate.DefaultOptions(), func(context.Context, []string, []string) (consolidate.Answer, error) {
			return consolidate.Answer{Existing: map[string]string{"web/p": "b"}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Moves) != c.moves || c.kept != "" && !strings.Contains(d.Kept[0].Reason, c.kept) {
			t.Errorf("a pod that counts %v times: moves %+v, kept %+v", c.fresh, d.Moves, d.Kept)
		}
	}
}

// What a pod requests is what kube-scheduler counts, with and without containers that run first, overhead and requests of the whole pod.
func TestRequestedCPU(t *testing.T) {
	containers := func(cpu ...string) (out []corev1.Container) {
		for _, q := range cpu {
			out = append(out, corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(q)}}})
		}
		return out
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := containers("200m")
	sidecar[0].RestartPolicy = &always
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want int64
	}{
		"two containers":   {corev1.PodSpec{Containers: containers("1500m", "1")}, 2500},
		"none":             {corev1.PodSpec{Containers: []corev1.Container{{}}}, 0},
		"one runs first":   {corev1.PodSpec{Containers: containers("1"), InitContainers: containers("3")}, 3000},
		"one runs beside":  {corev1.PodSpec{Containers: containers("1"), InitContainers: sidecar}, 1200},
		"overhead":         {corev1.PodSpec{Containers: containers("1"), Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}, 1100},
		"of the whole pod": {corev1.PodSpec{Containers: containers("1"), Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}}, 4000},
	} {
		if got := consolidate.RequestedCPU(&corev1.Pod{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
