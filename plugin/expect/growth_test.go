package expect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/expect"
)

func start() time.Time { return time.Date(2026, 3, 4, 8, 0, 0, 0, time.UTC) }

// pods returns n pods of a controller that were created at the time.
func pods(kind, name string, n int, created time.Time) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%d-%d", name, created.Unix(), i), CreationTimestamp: metav1.NewTime(created),
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: name, Controller: new(true)}},
		}, Spec: corev1.PodSpec{NodeName: "node"}}
	}
	return out
}

// A Deployment that has n(m) pods in minute m, counted as often as that is due for so many minutes.
func counted(minutes int, n func(minute int) int) (out expect.Growth) {
	for m := range minutes {
		if now := start().Add(time.Duration(m) * time.Minute); out.Due(now) {
			out.Observe(now, pods("ReplicaSet", "web", n(m), now))
		}
	}
	return out
}

func web() expect.Workload { return expect.Workload{Namespace: "default", Name: "web"} }

func TestGrowthThatGoesOnIsExpectedOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		n           func(minute int) int
		least, most int
	}{
		"steady":        {func(m int) int { return 100 + m }, 28, 28},
		"it slows down": {func(m int) int { return 100 + min(m, 100) }, 9, 12},
		"it speeds up":  {func(m int) int { return 100 + m*m/10 }, 400, 430},
		"at once":       {func(m int) int { return 10 + m/119*300 }, 0, 0},
		"an hour ago":   {func(m int) int { return 10 + min(m, 50) }, 0, 0},
		"it shrinks":    {func(m int) int { return 200 - m }, 0, 0},
		"up and down":   {func(m int) int { return 100 + m/4%2*50 }, 0, 0},
		"only just":     {func(m int) int { return max(m-100, 0) }, 0, 0},
	} {
		g := counted(120, c.n)
		if n := g.Of(web()); n < c.least || n > c.most {
			t.Errorf("%s: %d pods are expected, want %d to %d", name, n, c.least, c.most)
		}
	}
}

// After a restart the ages of the pods that there are say what is known.
func TestRestart(t *testing.T) {
	var all []*corev1.Pod
	for m := range 120 {
		all = append(all, pods("ReplicaSet", "web", 1, start().Add(time.Duration(m)*time.Minute))...)
		all = append(all, pods("Job", "batch", 1, start().Add(time.Duration(m)*time.Minute))...)
	}
	all = append(all, pods("ReplicaSet", "burst", 100, start().Add(2*time.Hour))...)
	var g expect.Growth
	g.Observe(start().Add(2*time.Hour), all)
	if n := g.Of(web()); n < 27 || n > 29 {
		t.Errorf("%d pods are expected of a Deployment that got one a minute", n)
	}
	for _, name := range []string{"batch", "burst", "unknown", ""} {
		if n := g.Of(expect.Workload{Namespace: "default", Name: name}); n != 0 {
			t.Errorf("%d pods of %q are expected", n, name)
		}
	}
	// A pause in which nothing was counted is bridged in the same way.
	g.Observe(start().Add(8*time.Hour), all)
	if n := g.Of(web()); n != 0 {
		t.Errorf("%d pods are expected after hours without one", n)
	}
}

// A rollout moves pods from one ReplicaSet to another: the Deployment does not grow. One that opts out is not counted, nor are pods that have ended.
func TestWorkloads(t *testing.T) {
	var g expect.Growth
	for m := 0; m < 120; m += 4 {
		now := start().Add(time.Duration(m) * time.Minute)
		all := append(pods("ReplicaSet", "web-aaa", 120-m, start()), pods("ReplicaSet", "web-bbb", m, now)...)
		for i, pod := range all {
			pod.Labels = map[string]string{"pod-template-hash": "aaa"}
			if i >= 120-m {
				pod.Labels["pod-template-hash"] = "bbb"
			}
		}
		out, ended := pods("ReplicaSet", "out", m, now), pods("ReplicaSet", "ended", m, now)
		for i := range out {
			out[i].Annotations = map[string]string{expect.KeyExpectGrowth: "false"}
			ended[i].Status.Phase = corev1.PodSucceeded
		}
		g.Observe(now, append(append(all, out...), ended...))
	}
	for _, name := range []string{"web", "web-bbb", "out", "ended"} {
		if n := g.Of(expect.Workload{Namespace: "default", Name: name}); n != 0 {
			t.Errorf("%d pods of %q are expected", n, name)
		}
	}
}

// However many Deployments a tenant makes, so many are counted at most, and the larger ones stay.
func TestManyWorkloads(t *testing.T) {
	var g expect.Growth
	for m := 0; m < 64; m += 4 {
		now := start().Add(time.Duration(m) * time.Minute)
		all := pods("ReplicaSet", "web", 10+m, now)
		for i := range expect.MostWorkloads + 100 {
			all = append(all, pods("ReplicaSet", fmt.Sprintf("tiny-%d", i), 1, now)...)
		}
		g.Observe(now, all)
	}
	if n := g.Of(web()); n != 28 {
		t.Errorf("%d pods are expected of the largest one, want 28", n)
	}
}

// Pods that have no node, or never get one as those with a scheduling gate, are no reason to keep room for more than there are on nodes.
func TestOnlyAsManyAsHaveANode(t *testing.T) {
	for name, c := range map[string]struct {
		bound int
		gated bool
		want  int
	}{"all have one": {1000, false, 28}, "few have": {3, false, 3}, "none has": {0, false, 0}, "the others are gated": {3, true, 0}} {
		var g expect.Growth
		for m := 0; m < 64; m += 4 {
			now := start().Add(time.Duration(m) * time.Minute)
			all := pods("ReplicaSet", "web", 100+m, now)
			for i, pod := range all {
				if i >= c.bound {
					pod.Spec.NodeName, pod.CreationTimestamp = "", metav1.NewTime(now.Add(time.Second))
				}
				if i >= c.bound && c.gated {
					pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/never"}}
				}
			}
			g.Observe(now, all)
		}
		if n := g.Of(web()); n != c.want {
			t.Errorf("%s: %d pods are expected, want %d", name, n, c.want)
		}
		for _, e := range g.All(200) {
			if e.Like.Spec.NodeName == "" {
				t.Errorf("%s: the pods that are expected are like one without a node", name)
			}
		}
	}
}

// Of the room that is kept, no namespace takes what others need.
func TestNamespacesHaveEqualParts(t *testing.T) {
	var g expect.Growth
	for m := 0; m < 64; m += 4 {
		now := start().Add(time.Duration(m) * time.Minute)
		all := append(pods("ReplicaSet", "one", 500+50*m, now), pods("ReplicaSet", "two", 100+m, now)...)
		for _, name := range []string{"big", "small"} {
			tenant := pods("ReplicaSet", name, 10+m*len(name), now)
			for _, pod := range tenant {
				pod.Namespace = name
			}
			all = append(all, tenant...)
		}
		g.Observe(now, all)
	}
	for most, want := range map[int]string{
		10000: "default/one:1400 small/small:140 big/big:84 default/two:28",
		300:   "default/one:108 small/small:108 big/big:84",
		4:     "default/one:2 small/small:1 big/big:1",
		0:     "",
	} {
		var got []string
		for _, e := range g.All(most) {
			got = append(got, fmt.Sprintf("%s:%d", e.Workload, e.Pods))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d at most: %q, want %q", most, got, want)
		}
	}
}
