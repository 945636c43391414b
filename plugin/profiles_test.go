package plugin

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// An extender that binds, or that knows only nodes that exist, leaves the pods that it is interested in to the scheduler's own cycle.
func TestExtendersThatTakePart(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}, Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")},
	}}}}}
	managed := func(name string) []config.ExtenderManagedResource {
		return []config.ExtenderManagedResource{{Name: name}}
	}
	for _, tc := range []struct {
		name string
		of   config.Extender
		want bool
	}{
		{name: "it filters complete nodes", of: config.Extender{FilterVerb: "filter"}},
		{name: "it filters names", of: config.Extender{FilterVerb: "filter", NodeCacheCapable: true}, want: true},
		{name: "it scores names", of: config.Extender{PrioritizeVerb: "score", Weight: 1, NodeCacheCapable: true}},
		{name: "it binds", of: config.Extender{BindVerb: "bind"}, want: true},
		{name: "it binds what the pod asks for", of: config.Extender{BindVerb: "bind", ManagedResources: managed("example.com/gpu")}, want: true},
		{name: "it binds what the pod does not ask for", of: config.Extender{BindVerb: "bind", ManagedResources: managed("example.com/fpga")}},
	} {
		tc.of.URLPrefix = "http://extender.example"
		e, err := scheduler.NewHTTPExtender(&tc.of)
		if err != nil {
			t.Fatal(err)
		}
		p := &profiles{configured: []config.Extender{tc.of}}
		p.extenders = append(p.extenders, e)
		if got := p.extended(pod); (got != "") != tc.want || tc.want && !strings.Contains(got, "http://extender.example") {
			t.Errorf("%s: %q, want a reason: %t", tc.name, got, tc.want)
		}
	}
}
