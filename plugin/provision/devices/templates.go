package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// maxDevices is how many devices a ResourceSlice holds at most.
const maxDevices = resourcev1.ResourceSliceMaxDevices

// Template declares the devices that a driver publishes on each node of some instance types.
type Template struct {
	// InstanceTypes by name. Required.
	InstanceTypes []string `json:"instanceTypes"`
	// Driver is the name of the DRA driver. Required.
	Driver string `json:"driver"`
	// Devices of one node. Required.
	Devices []Device `json:"devices"`
}

// Device is a number of equal devices.
type Device struct {
	// Name of the device; those of several are NAME-0, NAME-1 and so on. Required.
	Name string `json:"name"`
	// Count is how many there are; 0 for 1.
	Count int `json:"count,omitempty"`
	// Attributes and Capacity are those of resource.k8s.io/v1, for selectors.
	Attributes map[resourcev1.QualifiedName]resourcev1.DeviceAttribute `json:"attributes,omitempty"`
	// Capacity is described at Attributes.
	Capacity map[resourcev1.QualifiedName]resourcev1.DeviceCapacity `json:"capacity,omitempty"`
}

// Validate returns all errors in the templates, with the paths of their fields.
func Validate(path *field.Path, list []Template) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, t := range list {
		at := path.Index(i)
		if len(t.InstanceTypes) == 0 {
			errs = append(errs, field.Required(at.Child("instanceTypes"), "names at least one instance type"))
		}
		for _, name := range t.InstanceTypes {
			if key := t.Driver + "/" + name; seen.Has(key) {
				errs = append(errs, field.Duplicate(at.Child("instanceTypes"), name))
			} else {
				seen.Insert(key)
			}
		}
		for _, msg := range validation.IsDNS1123Subdomain(t.Driver) {
			errs = append(errs, field.Invalid(at.Child("driver"), t.Driver, msg))
		}
		names := sets.New[string]()
		for j, d := range t.Devices {
			for _, msg := range validation.IsDNS1123Label(d.Name) {
				errs = append(errs, field.Invalid(at.Child("devices").Index(j).Child("name"), d.Name, msg))
			}
			if d.Count < 0 || d.Count > maxDevices {
				errs = append(errs, field.Invalid(at.Child("devices").Index(j).Child("count"), d.Count, fmt.Sprintf("must be between 1 and %d", maxDevices)))
				continue
			}
			for _, one := range d.each() {
				names.Insert(one.Name)
			}
		}
		if n, distinct := count(t.Devices), names.Len(); n == 0 || n > maxDevices || n != distinct && len(errs) == 0 {
			errs = append(errs, field.Invalid(at.Child("devices"), n, fmt.Sprintf("must be 1 to %d devices with distinct names", maxDevices)))
		}
	}
	return errs
}

func count(list []Device) int {
	n := 0
	for _, d := range list {
		n += max(d.Count, 1)
	}
	return n
}

// each returns the devices one by one.
func (d *Device) each() []resourcev1.Device {
	if d.Count <= 1 {
		return []resourcev1.Device{{Name: d.Name, Attributes: d.Attributes, Capacity: d.Capacity}}
	}
	out := make([]resourcev1.Device, 0, d.Count)
	for i := range d.Count {
		out = append(out, resourcev1.Device{Name: d.Name + "-" + strconv.Itoa(i), Attributes: d.Attributes, Capacity: d.Capacity})
	}
	return out
}

// place is an instance type of an EC2NodeClass: its nodes have the same image, and so the same drivers.
type place struct{ class, instanceType string }

// templates are the devices of nodes that do not exist.
type templates struct {
	// declared are by instance type and driver, learned by place and driver.
	declared map[string]map[string]nodeDevices
	learned  map[place]map[string]nodeDevices
}

// nodeDevices are the devices of one driver on one node.
type nodeDevices struct {
	// slices are the driver's ResourceSlices, as lists of devices.
	slices [][]resourcev1.Device
	// node published them; empty for what is declared.
	node string
}

// devices is how many there are.
func (p nodeDevices) devices() int {
	n := 0
	for _, list := range p.slices {
		n += len(list)
	}
	return n
}

func newTemplates(declared []Template) *templates {
	t := &templates{declared: map[string]map[string]nodeDevices{}, learned: map[place]map[string]nodeDevices{}}
	for i := range declared {
		var all []resourcev1.Device
		for j := range declared[i].Devices {
			all = append(all, declared[i].Devices[j].each()...)
		}
		for _, name := range declared[i].InstanceTypes {
			if t.declared[name] == nil {
				t.declared[name] = map[string]nodeDevices{}
			}
			t.declared[name][declared[i].Driver] = nodeDevices{slices: [][]resourcev1.Device{all}}
		}
	}
	return t
}

// learn records the complete pools of the nodes. Of the nodes of a place, the one with the most devices speaks for it, of several the newest: a node with
// fewer may have devices that fail. A node that loses devices speaks by those that it had, and one without any for no place. What was learned stays when
// the nodes are gone.
func (t *templates) learn(nodes []*corev1.Node, list []*resourcev1.ResourceSlice, cat *catalog.State) {
	published := byNode(list)
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	found := map[place]map[string]nodeDevices{}
	for _, n := range nodes {
		pool, ours := cat.NodePools[n.Labels[labelNodePool]]
		if !ours {
			continue
		}
		at := place{pool.NodeClass, n.Labels[corev1.LabelInstanceTypeStable]}
		if found[at] == nil {
			found[at] = map[string]nodeDevices{}
		}
		for driver, before := range t.learned[at] {
			if before.node == n.Name {
				keepMost(found[at], driver, before)
			}
		}
		for driver, of := range published[n.Name] {
			if devices, ok := complete(of); ok {
				keepMost(found[at], driver, nodeDevices{slices: devices, node: n.Name})
			}
		}
	}
	for at, drivers := range found {
		if t.learned[at] == nil {
			t.learned[at] = map[string]nodeDevices{}
		}
		maps.Copy(t.learned[at], drivers)
	}
}

// keepMost keeps the devices of a driver if there are some, and as many as those that are kept.
func keepMost(kept map[string]nodeDevices, driver string, p nodeDevices) {
	if n := p.devices(); n > 0 && n >= kept[driver].devices() {
		kept[driver] = p
	}
}

// byNode returns the slices of single nodes, by node and driver.
func byNode(list []*resourcev1.ResourceSlice) map[string]map[string][]*resourcev1.ResourceSlice {
	out := map[string]map[string][]*resourcev1.ResourceSlice{}
	for _, s := range list {
		name := ptr.Deref(s.Spec.NodeName, "")
		if name == "" {
			continue
		}
		if out[name] == nil {
			out[name] = map[string][]*resourcev1.ResourceSlice{}
		}
		out[name][s.Spec.Driver] = append(out[name][s.Spec.Driver], s)
	}
	return out
}

// complete returns the devices of a driver on one node by slice. It reports false if a pool lacks slices of its latest generation, or
// if the devices depend on shared counters.
func complete(list []*resourcev1.ResourceSlice) ([][]resourcev1.Device, bool) {
	latest, have := map[string]int64{}, map[string]int64{}
	for _, s := range list {
		latest[s.Spec.Pool.Name] = max(latest[s.Spec.Pool.Name], s.Spec.Pool.Generation)
	}
	var out [][]resourcev1.Device
	list = slices.SortedFunc(slices.Values(list), func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range list {
		if s.Spec.Pool.Generation < latest[s.Spec.Pool.Name] {
			continue
		}
		if len(s.Spec.SharedCounters) > 0 || slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool { return len(d.ConsumesCounters) > 0 }) {
			return nil, false
		}
		have[s.Spec.Pool.Name]++
		out = append(out, anonymous(s.Spec.Devices))
	}
	for _, s := range list {
		if s.Spec.Pool.Generation == latest[s.Spec.Pool.Name] && have[s.Spec.Pool.Name] != s.Spec.Pool.ResourceSliceCount {
			return nil, false
		}
	}
	return out, true
}

// anonymous returns the devices as another node has them: without the attribute uuid, and without taints, by which a driver or a DeviceTaintRule says that
// a device fails.
func anonymous(list []resourcev1.Device) []resourcev1.Device {
	out := make([]resourcev1.Device, 0, len(list))
	for _, d := range list {
		d.Taints = nil
		d.Attributes = maps.Clone(d.Attributes)
		maps.DeleteFunc(d.Attributes, func(name resourcev1.QualifiedName, _ resourcev1.DeviceAttribute) bool {
			text := string(name)
			return strings.EqualFold(text[strings.LastIndex(text, "/")+1:], "uuid")
		})
		out = append(out, d)
	}
	return out
}

// of returns the ResourceSlices that a node would have. What a driver published goes before what was declared for it.
func (t *templates) of(at place, node string) []*resourcev1.ResourceSlice {
	drivers := maps.Clone(t.declared[at.instanceType])
	if drivers == nil {
		drivers = map[string]nodeDevices{}
	}
	maps.Copy(drivers, t.learned[at])
	var out []*resourcev1.ResourceSlice
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		for i, devices := range drivers[driver].slices {
			name := node + "/" + driver + "/" + strconv.Itoa(i)
			out = append(out, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
				Driver: driver, NodeName: &node, Devices: devices,
				Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
			}})
		}
	}
	return out
}
