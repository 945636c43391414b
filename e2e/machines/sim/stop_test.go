package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-k8s/slipway/e2e/machines/delay"
)

// end is a container's end as the cases have it: seconds after the kubelet began to stop it, and the exit code.
type end struct {
	After float64
	Code  int32
}

func exec(command ...string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
}

func sleepHook(seconds int64) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}
}

// What killContainer of pkg/kubelet/kuberuntime does: the hook's time is taken off the grace period, and two seconds are left at least.
func TestStops(t *testing.T) {
	httpGet := &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/drain", Port: intstr.FromInt32(80)}}
	for name, c := range map[string]struct {
		grace   int64
		stopsIn string
		hooks   map[string]*corev1.LifecycleHandler
		takes   string
		sidecar bool
		speed   float64
		want    map[string]end
	}{
		"at once":                 {grace: 30, stopsIn: "1s", want: map[string]end{"app": {1, 0}}},
		"its own time":            {grace: 30, stopsIn: "20s", want: map[string]end{"app": {20, 0}}},
		"longer than its grace":   {grace: 5, stopsIn: "20s", want: map[string]end{"app": {5, killed}}},
		"no grace":                {grace: 0, stopsIn: "20s", want: map[string]end{"app": {2, killed}}},
		"a hook that sleeps":      {grace: 30, stopsIn: "1s", hooks: map[string]*corev1.LifecycleHandler{"app": sleepHook(10)}, want: map[string]end{"app": {11, 0}}},
		"the rest of the grace":   {grace: 15, stopsIn: "10s", hooks: map[string]*corev1.LifecycleHandler{"app": sleepHook(10)}, want: map[string]end{"app": {15, killed}}},
		"a hook past the grace":   {grace: 5, stopsIn: "10s", hooks: map[string]*corev1.LifecycleHandler{"app": exec("sh", "-c", "sleep 300")}, want: map[string]end{"app": {7, killed}}},
		"no hook without a grace": {grace: 0, stopsIn: "1s", hooks: map[string]*corev1.LifecycleHandler{"app": sleepHook(10)}, want: map[string]end{"app": {1, 0}}},
		"another program":         {grace: 30, stopsIn: "1s", hooks: map[string]*corev1.LifecycleHandler{"app": exec("nginx", "-s", "quit")}, want: map[string]end{"app": {1, 0}}},
		"a server that answers":   {grace: 30, stopsIn: "1s", hooks: map[string]*corev1.LifecycleHandler{"app": httpGet}, takes: "4s", want: map[string]end{"app": {5, 0}}},
		"ten times as fast":       {grace: 30, stopsIn: "10s", hooks: map[string]*corev1.LifecycleHandler{"app": sleepHook(25)}, speed: 10, want: map[string]end{"app": {3, killed}}},
		"a sidecar waits for its turn": {
			grace: 30, stopsIn: "3s", sidecar: true,
			hooks: map[string]*corev1.LifecycleHandler{"app": sleepHook(10)}, want: map[string]end{"app": {13, 0}, "proxy": {16, 0}},
		},
		"a sidecar's hook runs meanwhile": {
			grace: 30, stopsIn: "3s", sidecar: true,
			hooks: map[string]*corev1.LifecycleHandler{"app": sleepHook(10), "proxy": sleepHook(12)}, want: map[string]end{"app": {13, 0}, "proxy": {16, 0}},
		},
		"no time is left for the sidecar": {grace: 10, stopsIn: "30s", sidecar: true, want: map[string]end{"app": {10, killed}, "proxy": {12, killed}}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			always := corev1.ContainerRestartPolicyAlways
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					DeletionGracePeriodSeconds: &c.grace, Annotations: map[string]string{StopsInAnnotation: c.stopsIn, HookTakesAnnotation: c.takes},
				},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx"}}},
			}
			if c.sidecar {
				pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", Image: "envoy", RestartPolicy: &always}}
			}
			for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
				for i := range list {
					if hook := c.hooks[list[i].Name]; hook != nil {
						list[i].Lifecycle = &corev1.Lifecycle{PreStop: hook}
					}
				}
			}
			p := planner{disk: newDisk(), networkReady: now, source: delay.Source{Speed: c.speed}}
			ending := p.stopping(pod, p.plan(pod, now, &corev1.Node{}), now)
			got := map[string]end{}
			for name, stop := range ending.stops() {
				got[name] = end{stop.at.Sub(now).Seconds(), stop.code}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The pod of a container that SIGKILL ends fails, and it runs and is ready until then.
func TestStatusWhileStopping(t *testing.T) {
	now := time.Unix(1000, 0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: new(int64(10)), Annotations: map[string]string{StopsInAnnotation: "1h"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "app", Image: "nginx"}, {Name: "slow", Image: "nginx", Lifecycle: &corev1.Lifecycle{PreStop: sleepHook(9)}},
		}},
	}
	p := planner{disk: newDisk(), networkReady: now}
	view := podView{pod: pod, plan: p.plan(pod, now, &corev1.Node{}), signaled: now}
	ending := p.stopping(pod, view.plan, now)
	view.stops = ending.stops()
	view.stopped = ending.last(view.stops)
	ready := func(s corev1.PodStatus) corev1.ConditionStatus {
		for _, c := range s.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status
			}
		}
		return ""
	}
	if got := view.statusAt(now.Add(9 * time.Second)); got.Phase != corev1.PodRunning || ready(got) != corev1.ConditionTrue {
		t.Errorf("within the grace period: %s, Ready %s", got.Phase, ready(got))
	}
	if got := view.nextChange(now); !got.Equal(now.Add(10 * time.Second)) {
		t.Errorf("the status changes next at %s, want after 10 s", got)
	}
	got := view.statusAt(now.Add(10 * time.Second))
	if got.Phase != corev1.PodRunning || ready(got) != corev1.ConditionFalse || got.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("when the first container was killed: %s, Ready %s, %+v", got.Phase, ready(got), got.ContainerStatuses[0].State)
	}
	got = view.statusAt(now.Add(11 * time.Second))
	if dead := got.ContainerStatuses[1].State.Terminated; got.Phase != corev1.PodFailed || dead == nil || dead.ExitCode != killed || dead.Reason != "Error" {
		t.Errorf("after the least grace period: %s, %+v", got.Phase, dead)
	}
}

func TestSleeps(t *testing.T) {
	for _, c := range []struct {
		command []string
		want    time.Duration
		found   bool
	}{
		{[]string{"sleep", "15"}, 15 * time.Second, true},
		{[]string{"/bin/sleep", "1.5m"}, 90 * time.Second, true},
		{[]string{"/bin/sh", "-c", "sleep 300"}, 5 * time.Minute, true},
		{[]string{"sh", "-c", "sleep 5; kill -s QUIT 1 && sleep 2&& true"}, 7 * time.Second, true},
		{[]string{"bash", "-c", "(sleep 3)"}, 3 * time.Second, true},
		{[]string{"sleep", "infinity"}, forever, true},
		{[]string{"nginx", "-s", "quit"}, 0, false},
		{[]string{"sh", "-c", "asleep 5"}, 0, false},
		{nil, 0, false},
	} {
		if got, found := sleeps(c.command); got != c.want || found != c.found {
			t.Errorf("%q: %s, %v, want %s, %v", c.command, got, found, c.want, c.found)
		}
	}
}
