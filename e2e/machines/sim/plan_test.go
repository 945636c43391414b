package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/delay"
)

// The measured case (SCHEDULER 11, R12): ten pods bound before boot, network ready 9 s after the kubelet's start, all
// running after 19.7 s: their volumes were mounted at 15.5 s.
func TestNextMount(t *testing.T) {
	for _, c := range []struct {
		name       string
		registered time.Duration
		speed      float64
		want       time.Duration
		tries      int
	}{
		{"nothing to wait for", 0, 1, 0, 0},
		{"a moment", 100 * time.Millisecond, 1, 500 * time.Millisecond, 1},
		{"the measured case", 9 * time.Second, 1, 15500 * time.Millisecond, 5},
		{"a slow network plugin", 40 * time.Second, 1, 63500 * time.Millisecond, 7},
		{"the longest wait is 122 s", 10 * time.Minute, 1, 615500 * time.Millisecond, 12},
		{"ten times as fast", 900 * time.Millisecond, 10, 1550 * time.Millisecond, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			admitted := time.Unix(1000, 0)
			at, tries := nextMount(admitted, admitted.Add(c.registered), delay.Source{Speed: c.speed})
			if got := at.Sub(admitted); got != c.want || tries != c.tries {
				t.Errorf("after %v and %d tries, want %v and %d", got, tries, c.want, c.tries)
			}
		})
	}
}

func TestOneImageIsPulledOnce(t *testing.T) {
	fixed := func(d time.Duration) delay.Distribution { return delay.Distribution{Min: d, Mode: d, Max: d} }
	now := time.Unix(1000, 0)
	p := planner{times: delay.Times{PullMedium: fixed(3 * time.Second), Container: fixed(time.Second)}, disk: newDisk()}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx"}}}}
	for _, step := range []struct{ at, running time.Duration }{
		{0, 4 * time.Second},                 // pulls
		{time.Second, 4 * time.Second},       // waits for that pull
		{5 * time.Second, 6 * time.Second},   // finds it there
		{-5 * time.Second, -1 * time.Second}, // would have been earlier
	} {
		got := p.plan(pod, now.Add(step.at), &corev1.Node{}).containers[0].start.Sub(now)
		if got != step.running {
			t.Errorf("admitted at %v: runs at %v, want %v", step.at, got, step.running)
		}
	}
}

// The prefetch unit pulls three images at a time, and none again. A pod finds what was pulled, however long its size takes from when it was begun.
func TestImagesArePulledAhead(t *testing.T) {
	fixed := func(d time.Duration) delay.Distribution { return delay.Distribution{Min: d, Mode: d, Max: d} }
	now := time.Unix(1000, 0)
	p := planner{times: delay.Times{PullMedium: fixed(3 * time.Second), PullLarge: fixed(25 * time.Second)}, disk: newDisk()}
	p.disk.pulled("there", now)
	p.prefetch([]string{"a", "there", "b", "", "c", "d"}, now.Add(time.Second))
	p.prefetch([]string{"a", "e"}, now.Add(2*time.Second))
	for image, want := range map[string]time.Duration{"there": 0, "a": 4 * time.Second, "b": 4 * time.Second, "c": 4 * time.Second, "d": 7 * time.Second, "e": 7 * time.Second} {
		if got := p.disk.images[image].Sub(now); got != want {
			t.Errorf("image %s is there at %s, want %s", image, got, want)
		}
	}
	for size, want := range map[string]time.Duration{"": 5 * time.Second, "large": 26 * time.Second} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "a"}}}}
		pod.Annotations = map[string]string{ImageSizeAnnotation: size}
		if got := p.plan(pod, now.Add(5*time.Second), &corev1.Node{}).containers[0].start.Sub(now); got != want {
			t.Errorf("a pod whose image is %q runs at %s, want %s", size, got, want)
		}
	}
	p.disk.cut(now.Add(5 * time.Second))
	if !p.disk.has("a", now.Add(time.Minute)) || p.disk.has("d", now.Add(time.Minute)) {
		t.Error("what is on the disk after a power cut is what was pulled until then")
	}
}

// The pause container answers no probe: its pod runs and is never ready. Other images answer as soon as they have started.
func TestPauseAnswersNoProbe(t *testing.T) {
	now := time.Unix(1000, 0)
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}}}
	for _, c := range []struct {
		image     string
		readiness *corev1.Probe
		ready     bool
	}{
		{"registry.k8s.io/pause:3.10", nil, true},
		{"registry.k8s.io/pause:3.10", probe, false},
		{"public.ecr.aws/eks-distro/kubernetes/pause@sha256:0", probe, false},
		{"pause", probe, false},
		{"localhost:5000/pauses", probe, true},
		{"nginx:1", probe, true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: c.image, ReadinessProbe: c.readiness}}}}
		p := planner{disk: newDisk()}
		status := podView{pod: pod, plan: p.plan(pod, now, &corev1.Node{})}.statusAt(now.Add(time.Hour))
		if status.Phase != corev1.PodRunning || status.ContainerStatuses[0].Ready != c.ready {
			t.Errorf("image %s, probe %t: phase %s, container ready %t, want %t", c.image, c.readiness != nil, status.Phase, status.ContainerStatuses[0].Ready, c.ready)
		}
		for _, condition := range status.Conditions {
			if condition.Type == corev1.PodReady && (condition.Status == corev1.ConditionTrue) != c.ready {
				t.Errorf("image %s, probe %t: condition Ready is %s", c.image, c.readiness != nil, condition.Status)
			}
		}
	}
}

// A Job's pod with a sidecar is over when its work is, and its sidecar ends well.
func TestSidecarsEndWithTheirPod(t *testing.T) {
	now := time.Unix(1000, 0)
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{RunForAnnotation: "10s"}},
		Spec: corev1.PodSpec{
			RestartPolicy:  corev1.RestartPolicyNever,
			InitContainers: []corev1.Container{{Name: "proxy", Image: "envoy", RestartPolicy: &always}},
			Containers:     []corev1.Container{{Name: "app", Image: "nginx"}},
		},
	}
	p := planner{disk: newDisk(), networkReady: now}
	view := podView{pod: pod, plan: p.plan(pod, now, &corev1.Node{})}
	if got := view.statusAt(now.Add(9 * time.Second)); got.Phase != corev1.PodRunning || got.InitContainerStatuses[0].State.Running == nil {
		t.Errorf("while it works: %s, sidecar %+v", got.Phase, got.InitContainerStatuses[0].State)
	}
	got := view.statusAt(now.Add(10 * time.Second))
	if end := got.InitContainerStatuses[0].State.Terminated; got.Phase != corev1.PodSucceeded || end == nil || end.ExitCode != 0 {
		t.Errorf("at its end: %s, sidecar %+v", got.Phase, got.InitContainerStatuses[0].State)
	}
}

func TestReadinessGates(t *testing.T) {
	now := time.Unix(1000, 0)
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "target-health"}},
		Containers:     []corev1.Container{{Name: "app", Image: "nginx"}},
	}}
	p := planner{disk: newDisk(), networkReady: now}
	view := podView{pod: pod, plan: p.plan(pod, now, &corev1.Node{})}
	status := func() corev1.ConditionStatus {
		for _, c := range view.statusAt(now.Add(time.Second)).Conditions {
			if c.Type == corev1.PodReady {
				return c.Status
			}
		}
		return ""
	}
	if got := status(); got != corev1.ConditionFalse {
		t.Errorf("Ready is %s with an open gate", got)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "target-health", Status: corev1.ConditionTrue}}
	if got := status(); got != corev1.ConditionTrue {
		t.Errorf("Ready is %s once the gate is true", got)
	}
}
