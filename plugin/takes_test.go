package plugin

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// classResolver is the part of the scheduler's view of devices that maps extended resources to device classes.
type classResolver struct {
	fwk.SharedDRAManager
	cache *extendedresourcecache.ExtendedResourceCache
}

func (r classResolver) DeviceClassResolver() fwk.DeviceClassResolver { return r.cache }

// serving returns a cluster's devices, with a DeviceClass for the extended resource.
func serving(name string) classResolver {
	cache := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	cache.OnAdd(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &name}}, true)
	return classResolver{cache: cache}
}

// A node that has none of a resource takes a pod that asks for it where a DeviceClass stands for it: the node never shows it. What a node has some of is its
// device plugin's, and counts.
func TestNodesTakePodsWhoseResourceADeviceClassServes(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	pod := newTestPod(gpu, "2")
	for _, c := range []struct {
		name    string
		has     string
		devices fwk.SharedDRAManager
		want    bool
	}{
		{"the device plugin has not come", "", nil, false},
		{"enough of it", "2", nil, true},
		{"the feature is off", "", classResolver{}, false},
		{"a class for it", "", serving(gpu), true},
		{"a class for it, and the node shows none", "0", serving(gpu), true},
		{"a class for it, and too few of the device plugin's", "1", serving(gpu), false},
		{"a class for another", "", serving("example.com/other"), false},
	} {
		node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}
		if c.has != "" {
			node.Status.Allocatable[gpu] = resource.MustParse(c.has)
		}
		if got := takes(node, pod, c.devices); got != c.want {
			t.Errorf("%s: taken %t, want %t", c.name, got, c.want)
		}
	}
	if takes(&corev1.Node{}, newTestPod(corev1.ResourceCPU, "1"), serving(gpu)) {
		t.Error("a node without CPU takes a pod that asks for some")
	}
}

// A failure counts for equal pods with devices, but not where a DeviceClass stands for these: it may be newer than the failure, and have the pod fit.
func TestFailuresOfPodsWhoseResourceADeviceClassServes(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	o, err := newObjects(informers.NewSharedInformerFactory(fake.NewClientset(), 0))
	if err != nil {
		t.Fatal(err)
	}
	side := &hookSide{guard: &guard{metrics: m}, objects: o}
	pod := newTestPod(gpu, "1")
	init := newTestPod(corev1.ResourceCPU, "1")
	init.Spec.InitContainers = pod.Spec.Containers
	for _, c := range []struct {
		name    string
		devices fwk.SharedDRAManager
		want    bool
	}{{"no devices", nil, true}, {"no class for it", serving("example.com/other"), true}, {"a class for it", serving(gpu), false}} {
		side.devices = c.devices
		for _, p := range []*corev1.Pod{pod, init} {
			if _, got := side.Class(p); got != c.want {
				t.Errorf("%s: has a class %t, want %t", c.name, got, c.want)
			}
		}
	}
}

// newTestPod asks for so much of a resource.
func newTestPod(name corev1.ResourceName, quantity string) *corev1.Pod {
	list := corev1.ResourceList{name: resource.MustParse(quantity)}
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}}}}
}
