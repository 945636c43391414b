package plugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// profileHandle is what a profile's plugins are made with.
type profileHandle struct {
	fwk.Handle
	name      string
	informers informers.SharedInformerFactory
}

func (h profileHandle) ProfileName() string { return h.name }

func (h profileHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }

// The first profile of the configuration is that of adopted pods and of buffers', whatever its name.
func TestFirstProfileIsTheConfigurations(t *testing.T) {
	p, err := New(Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	want := []string{"slipway-scheduler", "a-gpu"}
	for _, name := range want {
		if _, err := p.NodeLaunch(t.Context(), nil, profileHandle{name: name, informers: factory}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(p.served, want) {
		t.Errorf("profiles %v, want %v", p.served, want)
	}
}

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
