package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/node"
)

func TestReported(t *testing.T) {
	one := resource.MustParse("1")
	few := corev1.ResourceList{"cpu": one, "nvidia.com/gpu": one, "hugepages-2Mi": one}
	if got, left := node.Reported(few, nil); left != 0 || !cmp.Equal(got, few) {
		t.Errorf("got %v, %d left out", got, left)
	}
	if got, left := node.Reported(nil, nil); got != nil || left != 0 {
		t.Errorf("got %v, %d left out", got, left)
	}
	many := corev1.ResourceList{
		"cpu": one, "memory": one, "pods": one, "z.io/planned": one, "not a name": one, "\x1b[31m": one, "x.io/less": resource.MustParse("-1"),
		corev1.ResourceName("x.io/" + strings.Repeat("a", 64)): one,
	}
	for i := range 5000 {
		many[corev1.ResourceName(fmt.Sprintf("x.io/r%04d", i))] = one
	}
	got, left := node.Reported(many, corev1.ResourceList{"z.io/planned": one})
	if len(got) != node.MaxResources || left != len(many)-node.MaxResources {
		t.Errorf("%d resources, %d left out", len(got), left)
	}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "pods", "z.io/planned", "x.io/r0000", "x.io/r0059"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is left out", name)
		}
	}
}
