package bench_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// roomPods is how many pods there is room for, and how many come at once. Each needs a node for itself.
const roomPods = 6

// The ways to have room before it is asked for, by the names of their NodePools. With bare there is none.
const (
	bare     = "bare"
	pause    = "pause"
	active   = "active"
	reserved = "reserved"
	standby  = "standby"
)

func rooms() []string { return []string{bare, pause, active, reserved, standby} }

// Room by pause pods, by buffers that are awake and by one that sleeps, at EC2's speed: what waiting costs, how long pods wait that it is meant for, and how
// long they wait where other pods have come first.
func BenchmarkRoom(b *testing.B) {
	for b.Loop() {
		b.Log(machine())
		l := newLab(b, sandbox.Config{Speed: 1, LauncherArgs: []string{"--feature-gates=CapacityBuffer=true"}})
		l.Create(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: pause}, Value: -10})
		for _, name := range rooms() {
			l.pool(name, "2")
			l.room(name)
		}
		took := l.awaitRooms(false)
		waiting := map[string]float64{}
		for _, name := range rooms() {
			waiting[name] = l.perHour(name)
		}
		l.arrive("web")
		refilled := l.awaitRooms(true)
		first := l.awaitPods("web")
		l.arrive("other")
		l.Await("other pods where any may come", func() bool { return l.bound("other-"+active) == roomPods && l.bound("other-"+pause) == roomPods })
		l.arrive("late")
		late := l.awaitPods("late")
		for _, name := range rooms() {
			b.Logf("%-8s there after %5.1f s, USD per hour of %d pods' room %.4f; pods ran after %s; there again after %5.1f s; after as many others after %s",
				name, took[name], roomPods, waiting[name], first[name], refilled[name], late[name])
		}
	}
}

// room asks for room of one way.
func (l *lab) room(name string) {
	l.b.Helper()
	spec := podSpec("1100m", "1Gi")
	if name == pause {
		spec.PriorityClassName, spec.Containers[0].Image = pause, "registry.example/pause:1"
		l.deployment("room-"+pause, pause, roomPods, spec)
		return
	}
	if name == bare {
		return
	}
	spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: name}
	template := corev1.PodTemplateSpec{Spec: spec}
	template.Labels = map[string]string{"for": name}
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	// A machine lists the images that it has every ten seconds of its time.
	buffer.Annotations = map[string]string{"slipway.dev/standby-prepare": "5s"}
	buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: name}, new(int32(roomPods))
	if name != active {
		buffer.Spec.ProvisioningStrategy = new("buffer.slipway.dev/" + name)
	}
	l.Create(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Template: template}, buffer)
}

// there reports whether all of the room is there.
func (l *lab) there(name string) bool {
	switch name {
	case bare:
		return true
	case pause:
		running := 0
		for _, p := range l.pods("room-" + pause) {
			if p.Object.Status.Phase == corev1.PodRunning && !p.Terminating.Seen() {
				running++
			}
		}
		return running == roomPods
	}
	buffer := &autoscalingv1beta1.CapacityBuffer{}
	if err := l.API.Get(l.b.Context(), client.ObjectKey{Namespace: "default", Name: name}, buffer); err != nil {
		l.b.Fatal(err)
	}
	return meta.IsStatusConditionTrue(buffer.Status.Conditions, "Provisioning")
}

// awaitRooms waits until all room is there, and returns how many seconds each took. Room that is taken is gone first.
func (l *lab) awaitRooms(taken bool) map[string]float64 {
	l.b.Helper()
	took, gone, start := map[string]float64{}, map[string]bool{}, time.Now()
	l.Await("room", func() bool {
		for _, name := range rooms() {
			there := l.there(name)
			gone[name] = gone[name] || !there || !taken || name == bare
			if _, done := took[name]; !done && gone[name] && there {
				took[name] = time.Since(start).Seconds()
			}
		}
		return len(took) == len(rooms())
	})
	return took
}

// bound is how many pods of an app have a node.
func (l *lab) bound(app string) (n int) {
	for _, p := range l.pods(app) {
		if p.Bound.Seen() {
			n++
		}
	}
	return n
}

// perHour is what the nodes of a NodePool cost while they wait, without the volumes of those that are stopped.
func (l *lab) perHour(pool string) (usd float64) {
	for _, c := range l.Recorder.Claims() {
		if !c.Deleted.Seen() && c.Object.Labels[karpv1.NodePoolLabelKey] == pool && !c.Object.StatusConditions().Get("Standby").IsTrue() {
			usd += view.ParseExpected(c.Object.Annotations["slipway.dev/expected"]).Price
		}
	}
	return usd
}

// arrive creates as many pods as there is room for, of each way. Those that are meant to have the room are all but app other.
func (l *lab) arrive(app string) {
	l.b.Helper()
	for _, name := range rooms() {
		spec := podSpec("1100m", "1Gi")
		d := deploymentOf(app+"-"+name, name, roomPods, spec)
		if app != "other" {
			d.Spec.Template.Labels["for"] = name
		}
		l.Create(d)
	}
}

// awaitPods waits until the pods run, and returns what they waited for, by way.
func (l *lab) awaitPods(app string) map[string]string {
	l.b.Helper()
	took := map[string][]float64{}
	l.Await("pods of "+app, func() bool {
		clear(took)
		for _, p := range l.Recorder.Pods() {
			if name, ok := strings.CutPrefix(p.Object.Labels["app"], app+"-"); ok && p.Running.Seen() {
				took[name] = append(took[name], p.Running.At.Sub(p.Created.At).Seconds())
			}
		}
		return !slices.ContainsFunc(rooms(), func(name string) bool { return len(took[name]) != roomPods })
	})
	out := map[string]string{}
	for name, list := range took {
		slices.Sort(list)
		out[name] = fmt.Sprintf("%.1f s (half), %.1f s (all)", list[roomPods/2], list[roomPods-1])
	}
	return out
}
