package day

import (
	"fmt"
	"math"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// minutes of a day.
const minutesPerDay = 24 * 60

// service is a Deployment that follows the hours.
type service struct {
	name        string
	cpu, memory string
	// low and high are its replicas at night and at its peak, peak the hour of that.
	low, high int
	peak      float64
	spot      bool
	// away is the percentage of its pods that its PodDisruptionBudget lets be away at a time, rounded up; 0 lets none go.
	away int
}

func services() []service {
	return []service{
		{"web", "500m", "1Gi", 16, 80, 14, false, 25},
		{"api", "1", "2Gi", 12, 48, 15, false, 25},
		{"search", "2", "12Gi", 6, 18, 13, false, 10},
		{"cache", "500m", "6Gi", 8, 16, 12, false, 10},
		{"ledger", "1", "4Gi", 3, 3, 12, false, 0},
		{"auth", "250m", "512Mi", 8, 24, 14, false, 25},
		{"feed", "750m", "1536Mi", 8, 60, 20, true, 25},
		{"media", "3", "4Gi", 4, 24, 21, true, 25},
		{"mail", "200m", "400Mi", 4, 12, 10, true, 50},
		{"ranking", "4", "8Gi", 2, 16, 16, true, 10},
	}
}

// fewer says that a service has so many replicas less.
type fewer struct {
	app string
	n   int
}

// change is what happens to the workload in a minute.
type change struct {
	come []*corev1.Pod
	// gone are names of pods that end.
	gone []string
	// fewer are the services that have fewer replicas from now on.
	fewer []fewer
}

// workload makes the changes of each minute, the same for the same seed, whatever becomes of the nodes.
func workload(seed uint64, minutes int) []change {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]change, minutes)
	for _, s := range services() {
		alive, next := 0, 0
		for m := range minutes {
			// Every Deployment is looked at every seven minutes, as an autoscaler with some inertia does.
			if m > 0 && (m+len(s.name))%7 != 0 {
				continue
			}
			want := s.replicas(m, rng)
			for range want - alive {
				out[m].come = append(out[m].come, newPod(fmt.Sprintf("%s-%d", s.name, next), "ReplicaSet", s))
				next++
			}
			if want < alive {
				out[m].fewer = append(out[m].fewer, fewer{s.name, alive - want})
			}
			alive = want
		}
	}
	for m := 1; m < minutes; m++ {
		if rng.Float64() > 0.06 {
			continue
		}
		// A Job: some pods at once, each for its time. A third of them may not be moved.
		job := service{name: fmt.Sprintf("job-%d", m), cpu: []string{"1", "2", "3500m"}[rng.IntN(3)], memory: "3Gi", spot: true}
		held := rng.IntN(3) == 0
		for i := range 1 + rng.IntN(14) {
			pod := newPod(fmt.Sprintf("%s-%d", job.name, i), "Job", job)
			if held {
				pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			}
			out[m].come = append(out[m].come, pod)
			if end := m + 4 + rng.IntN(50); end < minutes {
				out[end].gone = append(out[end].gone, pod.Name)
			}
		}
	}
	return out
}

// replicas follow a bell over the hours, with some noise.
func (s *service) replicas(minute int, rng *rand.Rand) int {
	hours := math.Abs(float64(minute%minutesPerDay)/60 - s.peak)
	hours = min(hours, 24-hours)
	load := math.Exp(-hours * hours / 18)
	return max(s.low+int(float64(s.high-s.low)*load*(0.9+0.2*rng.Float64())), 1)
}

// budgets are the percentages of the services' PodDisruptionBudgets, by name; Jobs have none.
func budgets() map[string]int {
	out := map[string]int{}
	for _, s := range services() {
		out[s.name] = s.away
	}
	return out
}

func newPod(name, kind string, s service) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": s.name},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: s.name, UID: types.UID(s.name), Controller: new(true)}},
	}}
	pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	pod.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: "steady"}
	if s.spot {
		pod.Spec.NodeSelector[karpv1.NodePoolLabelKey] = "flexible"
	}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(s.cpu), corev1.ResourceMemory: resource.MustParse(s.memory),
	}}}}
	pod.Status.Phase = corev1.PodRunning
	return pod
}
