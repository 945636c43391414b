package devices_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/devices"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

const driver = "gpu.example.com"

// objects are a cluster's, as the scheduler's manager has them.
type objects struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	claims map[string]*resourcev1.ResourceClaim
	slices []*resourcev1.ResourceSlice
	nodes  cache.Indexer
}

func (o *objects) ResourceClaims() fwk.ResourceClaimTracker { return o }
func (o *objects) ResourceSlices() fwk.ResourceSliceLister  { return o }
func (o *objects) DeviceClasses() fwk.DeviceClassLister     { return gpus{} }

func (o *objects) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	return o.slices, nil
}

func (o *objects) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	if c := o.claims[namespace+"/"+name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "resourceclaims"}, name)
}

// gpus lists one device class: the driver's.
type gpus struct{}

func (gpus) List() ([]*resourcev1.DeviceClass, error) { return nil, nil }

func (gpus) Get(name string) (*resourcev1.DeviceClass, error) {
	if name != "gpu" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "deviceclasses"}, name)
	}
	of := resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}
	return &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{of}}}, nil
}

// claim adds a claim for n devices of the model; 0 for all, "" for any model.
func (o *objects) claim(name string, n int64, model string) *resourcev1.ResourceClaim {
	ask := &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n}
	if n == 0 {
		ask.AllocationMode = resourcev1.DeviceAllocationModeAll
	}
	if model != "" {
		text := fmt.Sprintf("device.attributes[%q].model == %q", driver, model)
		ask.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: text}}}
	}
	c := &resourcev1.ResourceClaim{}
	c.Namespace, c.Name = "default", name
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: ask}}
	o.claims["default/"+name] = c
	return c
}

// publish adds a node and the slice of its devices, one of each model.
func (o *objects) publish(t *testing.T, at int64, name, instanceType string, models ...string) *resourcev1.ResourceSlice {
	t.Helper()
	node := st.MakeNode().Name(name).Label("karpenter.sh/nodepool", "default").Label(corev1.LabelInstanceTypeStable, instanceType).Obj()
	node.CreationTimestamp = metav1.Unix(at, 0)
	if err := o.nodes.Add(node); err != nil {
		t.Fatal(err)
	}
	s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
	}}
	for i, m := range models {
		uuid := fmt.Sprintf("%s-%d", name, i)
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: &m}, "uuid": {StringValue: &uuid},
		}})
	}
	o.slices = append(o.slices, s)
	return s
}

func newObjects() *objects {
	return &objects{claims: map[string]*resourcev1.ResourceClaim{}, nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
}

// declared are two devices of model A on large, and four of model A on xlarge.
func declared() []devices.Template {
	model := "A"
	of := func(instanceType string, n int) devices.Template {
		return devices.Template{InstanceTypes: []string{instanceType}, Driver: driver, Devices: []devices.Device{{
			Name: "gpu", Count: n, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}},
		}}}
	}
	return []devices.Template{of("large", 2), of("xlarge", 4)}
}

func market() catalog.State {
	var types []catalog.InstanceType
	for _, name := range []string{"small", "large", "xlarge"} {
		types = append(types, catalog.InstanceType{Name: name, Allocatable: verifytest.Quantities("cpu", "8")})
	}
	return catalog.State{
		NodePools:     map[string]catalog.NodePool{"default": {Name: "default", NodeClass: "class"}},
		InstanceTypes: map[string][]catalog.InstanceType{"class": types},
	}
}

func (o *objects) planner(t *testing.T, list []devices.Template) *devices.Planner {
	t.Helper()
	p, err := devices.New(devices.Config{DRA: o, Nodes: corelisters.NewNodeLister(o.nodes), Declared: list})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// asks is a class of n pods that name the claim; the claim of each is its own where template is set.
func asks(key, claim string, n int, template bool) plan.Class {
	c := verifytest.Class(key, n, verifytest.Pod(key))
	if template {
		c.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpus")}}
		c.Pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim}}
	} else {
		c.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	}
	return c
}

// room lists what the prepared catalog offers to the class, as "large 2, xlarge 4", or the class's problem.
func room(t *testing.T, p *devices.Planner, c plan.Class) string {
	t.Helper()
	before := market()
	out, err := p.Prepare(t.Context(), []plan.Class{c}, before)
	if err != nil {
		t.Fatal(err)
	}
	if problem := out.Classes[0].Claims.Problem; problem != nil {
		return problem.Message
	}
	for name := range out.Classes[0].Pod.Spec.Containers[0].Resources.Requests {
		var text []string
		for _, it := range out.Catalog.InstanceTypes["class"] {
			if q, ok := it.Allocatable[name]; ok && strings.HasPrefix(string(name), "resourceclaims.slipway.dev/") {
				text = append(text, it.Name+" "+q.String())
			}
		}
		if len(text) > 0 {
			return strings.Join(text, ", ")
		}
	}
	return "no devices"
}

// The scheduler's allocator decides how many pods the devices of an instance type serve.
func TestRoom(t *testing.T) {
	o := newObjects()
	o.claim("one", 1, "A")
	o.claim("two", 2, "")
	o.claim("three", 3, "A")
	o.claim("all", 0, "A")
	o.claim("other", 1, "Z")
	o.claim("classless", 1, "").Spec.Devices.Requests[0].Exactly.DeviceClassName = "tpu"
	o.claim("wrong", 1, "").Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "device.("}}}
	o.claim("taken", 1, "A").Status.Allocation = &resourcev1.AllocationResult{}
	for claim, want := range map[string]string{
		"one": "large 2, xlarge 4", "two": "large 1, xlarge 2", "three": "xlarge 1", "all": "large 1, xlarge 1",
		"other":     `asks for the ResourceClaim "gpu": of 2 instance types with known devices, none has devices that satisfy it`,
		"classless": "could not retrieve device class tpu", "wrong": "CEL compile error", "taken": "allocated already", "missing": "not found",
	} {
		if got := room(t, o.planner(t, declared()), asks("web", claim, 3, true)); !strings.Contains(got, want) {
			t.Errorf("claim %s: %q, want %q", claim, got, want)
		}
	}
	if got, want := room(t, o.planner(t, nil), asks("web", "one", 1, true)), "the devices of no instance type are known"; !strings.Contains(got, want) {
		t.Errorf("without templates: %q, want %q", got, want)
	}
	if got := room(t, o.planner(t, declared()), asks("web", "one", 1, false)); got != "large 2, xlarge 4" {
		t.Errorf("a named claim of one pod: %q", got)
	}
	if got, want := room(t, o.planner(t, declared()), asks("web", "one", 2, false)), "shares the ResourceClaim one"; !strings.Contains(got, want) {
		t.Errorf("a named claim of two pods: %q, want %q", got, want)
	}
}

// What the nodes of an instance type have published goes before what is declared, and is kept when they are gone.
func TestLearned(t *testing.T) {
	o := newObjects()
	o.claim("one", 1, "A")
	p := o.planner(t, declared())
	o.publish(t, 20, "new", "large", "A", "A", "A")
	o.publish(t, 10, "old", "large", "A")
	o.publish(t, 10, "half", "xlarge", "B").Spec.Pool.ResourceSliceCount = 2
	o.publish(t, 20, "counters", "xlarge", "B").Spec.Devices[0].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "memory"}}
	o.publish(t, 10, "small", "small", "B", "A")
	const want = "small 1, large 3, xlarge 4"
	if got := room(t, p, asks("web", "one", 1, true)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	o.slices = nil
	if got := room(t, p, asks("web", "one", 1, true)); got != want {
		t.Errorf("without nodes: %q, want %q", got, want)
	}
	for _, s := range p.Slices("class", "large", "virtual-1") {
		if *s.Spec.NodeName != "virtual-1" || slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool { _, has := d.Attributes["uuid"]; return has }) {
			t.Errorf("slice of a node to launch: %+v", s.Spec)
		}
	}
}

// A device that fails on a node says nothing of other nodes: whether it is tainted, missing, or the node is the only one.
func TestLearnedDespiteFailures(t *testing.T) {
	for name, nodes := range map[string][]string{"beside another node": {"old", "sick"}, "on the only node": {"sick"}} {
		t.Run(name, func(t *testing.T) {
			o := newObjects()
			o.claim("two", 2, "A")
			p := o.planner(t, nil)
			var sick *resourcev1.ResourceSlice
			for i, node := range nodes {
				sick = o.publish(t, int64(i), node, "large", "A", "A")
			}
			expect := func(when string) {
				t.Helper()
				if got := room(t, p, asks("web", "two", 1, true)); got != "large 1" {
					t.Errorf("%s: %q, want large 1", when, got)
				}
			}
			expect("all is well")
			sick.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "unhealthy", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
			expect("a device is tainted")
			sick.Spec.Devices = sick.Spec.Devices[1:]
			expect("a device is missing")
			sick.Spec.Devices = nil
			expect("all devices are missing")
			o.slices = nil
			expect("the nodes are gone")
		})
	}
}

// A node with fewer devices counts once no node with more is there: the nodes are set up in another way now.
func TestLearnedAgain(t *testing.T) {
	o := newObjects()
	o.claim("one", 1, "A")
	p := o.planner(t, nil)
	expect := func(when, want string) {
		t.Helper()
		if got := room(t, p, asks("web", "one", 1, true)); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	o.publish(t, 10, "old", "large", "A", "A")
	expect("the old node", "large 2")
	o.publish(t, 20, "new", "large", "A")
	expect("both nodes", "large 2")
	o.slices = o.slices[1:]
	expect("the old node without its driver", "large 2")
	if err := o.nodes.Delete(st.MakeNode().Name("old").Obj()); err != nil {
		t.Fatal(err)
	}
	expect("the new node", "large 1")
}

// A driver that publishes other devices than were declared gets no second node.
func TestDeclaredWrongly(t *testing.T) {
	o := newObjects()
	o.claim("one", 1, "A")
	o.publish(t, 10, "n1", "large", "B", "B")
	if got := room(t, o.planner(t, declared()[:1]), asks("web", "one", 1, true)); !strings.Contains(got, "of 1 instance type with known devices") {
		t.Errorf("%q", got)
	}
}

// Pods with equal claims share nodes, those with different ones do not. The plan names drivers and has no resources of its own making.
func TestFinish(t *testing.T) {
	o := newObjects()
	o.claim("one", 1, "A")
	o.claim("same", 1, "A")
	o.claim("two", 2, "A")
	p := o.planner(t, declared())
	given := []plan.Class{asks("a", "one", 1, true), asks("b", "same", 1, true), asks("c", "two", 1, true), verifytest.Class("d", 1, verifytest.Pod("d"))}
	out, err := p.Prepare(t.Context(), given, market())
	if err != nil {
		t.Fatal(err)
	}
	var apart []string
	for _, r := range out.Rejected {
		apart = append(apart, r.ClassKey+" "+strings.Join(r.With, ","))
	}
	slices.Sort(apart)
	if got := strings.Join(apart, "; "); got != "a c; b c; c a; c b" {
		t.Errorf("apart: %s", got)
	}
	if out.Classes[3].Claims != nil || len(given[0].Pod.Spec.Containers[0].Resources.Limits) > 0 {
		t.Error("a class without claims, or the request's own pod, was changed")
	}
	requests := plan.PodRequests(out.Classes[0].Pod)
	done := plan.Plan{Claims: []plan.Claim{
		{NodePool: "default", Alternatives: []string{"large", "xlarge"}, Requests: requests, Allocatable: out.Catalog.InstanceTypes["class"][1].Allocatable},
		{NodePool: "default", Alternatives: []string{"small"}, Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
	}}
	for name := range requests {
		done.Unplaced = append(done.Unplaced, plan.Unplaced{Reasons: []plan.Reason{{Message: "no type has " + string(name)}}})
	}
	out.Finish(&done, market().NodePools)
	if got := fmt.Sprint(done.Claims[0].DRADrivers, done.Claims[1].DRADrivers); got != "[gpu.example.com] []" {
		t.Errorf("drivers %s", got)
	}
	for name := range done.Claims[0].Requests {
		if strings.Contains(string(name), "slipway.dev") {
			t.Errorf("the claim requests %s", name)
		}
	}
	if n := len(done.Claims[0].Allocatable); n != 1 {
		t.Errorf("allocatable %v", done.Claims[0].Allocatable)
	}
	if !slices.ContainsFunc(done.Unplaced, func(u plan.Unplaced) bool {
		return strings.HasPrefix(u.Reasons[0].Message, `asks for the ResourceClaim "gpu": no instance type of the pool`)
	}) {
		t.Errorf("unplaced %+v", done.Unplaced)
	}
}

// Claims that take long to allocate end with their time: other pods are planned.
func TestBound(t *testing.T) {
	o := newObjects()
	// 16 requests for devices of which the last finds none: each order of the first 15 is tried.
	slow := o.claim("slow", 1, "A")
	first := slow.Spec.Devices.Requests[0]
	slow.Spec.Devices.Requests = nil
	for i := range 16 {
		r := *first.DeepCopy()
		r.Name = fmt.Sprintf("gpu-%d", i)
		slow.Spec.Devices.Requests = append(slow.Spec.Devices.Requests, r)
	}
	slow.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: new(resourcev1.FullyQualifiedName(driver + "/model"))}}
	models := make([]string, 16)
	for i := range models {
		models[i] = "A"
	}
	models[15] = "B"
	o.publish(t, 10, "n1", "large", models...)
	start := time.Now()
	got := room(t, o.planner(t, nil), asks("web", "slow", 1, true))
	if took := time.Since(start); took > 20*time.Second || !strings.Contains(got, `asks for the ResourceClaim "gpu"`) {
		t.Errorf("%q after %s", got, took)
	}
	t.Log(got, time.Since(start))
}
