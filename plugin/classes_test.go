package plugin

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

func classPod(uid, version, label string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: uid, UID: types.UID(uid), ResourceVersion: version, Labels: map[string]string{"app": label}}}
}

// TestClassesFollowThePod checks that a remembered class is that of the version of the pod, of which one without a version has none.
func TestClassesFollowThePod(t *testing.T) {
	var c classes
	for _, pod := range []*corev1.Pod{
		classPod("1", "1", "web"), classPod("1", "1", "web"), classPod("2", "1", "api"), classPod("1", "2", "api"), classPod("1", "1", "web"),
		classPod("3", "", "web"), classPod("3", "", "api"), classPod("", "1", "web"), classPod("", "1", "api"),
	} {
		if got, want := c.of(pod), plan.ClassKey(pod); got != want {
			t.Errorf("pod %q of version %q with label %q: class %s, want %s", pod.UID, pod.ResourceVersion, pod.Labels["app"], got, want)
		}
	}
}

// TestClassesAreBounded checks that pods that are not tried any more are forgotten, and those that are tried all the time are not.
func TestClassesAreBounded(t *testing.T) {
	var c classes
	stays := classPod("stays", "1", "web")
	c.of(stays)
	for i := range 3 * mostClasses {
		if c.of(classPod(fmt.Sprint(i), "1", "web")); i%1000 == 0 {
			c.of(stays)
		}
	}
	if n := len(c.recent) + len(c.older); n > 2*mostClasses {
		t.Errorf("%d classes are remembered, at most %d are expected", n, 2*mostClasses)
	}
	if got := testing.AllocsPerRun(10, func() { c.of(stays) }); got != 0 {
		t.Errorf("the class of a pod that is tried all the time takes %.0f allocations", got)
	}
	if _, ok := c.older["0"]; ok {
		t.Error("a pod that nothing tries any more is remembered")
	}
}
