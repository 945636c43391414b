package market

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/builtin"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// resourceNodes limits the number of a NodePool's nodes.
const resourceNodes corev1.ResourceName = "nodes"

// Catalog returns what the launcher would send to the planner: each NodePool with what its nodes use already, and the instance
// types of each EC2NodeClass with their offerings. Faults of a NodePool or a class are returned as problems. Their NodePools are
// then not ready; the others are not affected.
func (m *Market) Catalog(ctx context.Context, objects *input.Objects) (catalog.State, []input.Problem) {
	b := &builder{market: m, classes: map[string]*awsv1.EC2NodeClass{}, pods: map[string]*corev1.Pod{}, state: catalog.State{
		Generation: 1, NodePools: map[string]catalog.NodePool{}, InstanceTypes: map[string][]catalog.InstanceType{},
		InFlight: map[string]catalog.InFlightNode{}, Commitments: m.Commitments,
	}}
	for _, class := range objects.NodeClasses {
		b.classes[class.Name] = class
	}
	b.zones = m.zones(objects)
	for _, p := range objects.NodePools {
		pool := b.pool(p)
		b.state.NodePools[pool.Name] = pool
	}
	b.overlay(ctx, objects)
	if m.Interruptions != nil {
		for key, list := range b.state.InstanceTypes {
			b.state.InstanceTypes[key] = m.Interruptions.Apply(list, m.InterruptionCost)
		}
	}
	for _, p := range objects.Pods {
		b.pods[string(p.UID)] = p.Pod
	}
	nodes := map[string]*corev1.Node{}
	for _, n := range objects.Nodes {
		nodes[n.Name] = n
	}
	for _, claim := range objects.NodeClaims {
		b.inFlight(claim, nodes)
	}
	for _, p := range objects.NodePools {
		pool := b.state.NodePools[p.Name]
		pool.Usage = b.usage(p, objects, nodes)
		b.state.NodePools[p.Name] = pool
	}
	return b.state, b.problems
}

type builder struct {
	market   *Market
	classes  map[string]*awsv1.EC2NodeClass
	state    catalog.State
	problems []input.Problem
	zones    []string
	// pods are those of the input by UID.
	pods map[string]*corev1.Pod
	// unfit holds why a class cannot be used, by its name.
	unfit map[string]string
}

func (b *builder) problem(object, field, format string, args ...any) string {
	p := input.Problem{Object: object, Field: field, Message: fmt.Sprintf(format, args...)}
	b.problems = append(b.problems, p)
	return p.Field + ": " + p.Message
}

// pool returns the NodePool for the catalog.
func (b *builder) pool(p *karpv1.NodePool) catalog.NodePool {
	spec := p.Spec.Template.Spec
	out := catalog.NodePool{
		Name: p.Name, Labels: template.Decided(p), Taints: spec.Taints,
		StartupTaints: spec.StartupTaints, Requirements: template.Needs(p), Limits: window.Limits(p.Annotations, corev1.ResourceList(p.Spec.Limits), time.Now()).DeepCopy(), Ready: true,
	}
	if p.Spec.Weight != nil {
		out.Weight = *p.Spec.Weight
	}
	if _, err := window.Read(p.Annotations); err != nil {
		b.problem("NodePool "+p.Name, "metadata.annotations", "%v", err)
	}
	declared, err := catalog.DeclaredCost(p.Annotations)
	if err != nil {
		b.problem("NodePool "+p.Name, "metadata.annotations", "%v", err)
	}
	out.Declared = declared
	if out.OnDemandShare, err = catalog.OnDemandShare(p.Annotations); err != nil {
		b.problem("NodePool "+p.Name, "metadata.annotations", "%v", err)
	}
	no := func(why string) {
		if out.Ready {
			out.Ready, out.NotReadyMessage = false, why
		}
	}
	if p.DeletionTimestamp != nil {
		no("the NodePool is being deleted")
	}
	if p.Spec.Replicas != nil {
		no(b.problem("NodePool "+p.Name, "spec.replicas", "it keeps a fixed number of nodes: nothing is launched for pods"))
	}
	if why := b.class(p, &out); why != "" {
		no(why)
	}
	if root := p.StatusConditions().Root(); root != nil && root.IsFalse() {
		no("its condition Ready is False: " + root.Message)
	}
	return out
}

// class finds the NodePool's EC2NodeClass and its instance types. It returns why the class cannot be used; empty if it can.
func (b *builder) class(p *karpv1.NodePool, out *catalog.NodePool) string {
	ref := p.Spec.Template.Spec.NodeClassRef
	if ref == nil || ref.Name == "" {
		// The API server would refuse the NodePool; a simulation can do without the reference.
		b.problem("NodePool "+p.Name, "spec.template.spec.nodeClassRef", "is missing: taken as an EC2NodeClass of AL2023 with its defaults")
		return b.types("", nil)
	}
	out.NodeClass = ref.Name
	if ref.Kind != "" && ref.Kind != "EC2NodeClass" || ref.Group != "" && ref.Group != awsapis.Group {
		return b.problem("NodePool "+p.Name, "spec.template.spec.nodeClassRef", "%s/%s: %s/EC2NodeClass is expected", ref.Group, ref.Kind, awsapis.Group)
	}
	return b.types(ref.Name, b.classes[ref.Name])
}

// types adds the instance types of a class. A class that is not in the input is assumed to be AL2023 with its defaults.
func (b *builder) types(name string, class *awsv1.EC2NodeClass) string {
	if _, ok := b.state.InstanceTypes[name]; ok {
		return b.unfit[name]
	}
	settings := catalog.NodeClass{AMIFamily: catalog.FamilyAL2023}
	zones := zonesOf(class, b.zones)
	if class != nil {
		settings = fromec2.NodeClass(class)
	}
	settings.Rates = b.market.Rates
	why := b.classFault(class, settings)
	types := make([]catalog.InstanceType, 0, len(b.market.Types))
	left := 0
	for _, facts := range b.market.Types {
		// The AMI of an assumed class is not known: every listed type is offered.
		if class != nil && !catalog.Suits(facts, settings) {
			left++
			continue
		}
		t, err := catalog.New(facts, settings)
		if err != nil {
			why = b.problem("EC2NodeClass "+name, "", "%v", err)
			break
		}
		if t.Offerings = b.market.offerings(facts, zones); len(t.Offerings) == 0 {
			continue
		}
		t.Charges.AddTo(t.Offerings)
		t.DedicatedShare = catalog.DedicatedShare(b.market.OnDemand[t.Name], b.market.Dedicated[t.Name])
		if len(zones) > 0 {
			t.Labels[corev1.LabelTopologyRegion] = region(zones[0].Zone)
		}
		types = append(types, t)
	}
	if left > 0 {
		b.market.Notes = append(b.market.Notes, fmt.Sprintf("EC2NodeClass %s: its AMI family or settings leave out %s", name, catalog.CountText(left, "instance type")))
	}
	b.state.InstanceTypes[name] = types
	if b.unfit == nil {
		b.unfit = map[string]string{}
	}
	b.unfit[name] = why
	return why
}

// classFault returns what keeps every node of the class from starting; empty for nothing.
func (b *builder) classFault(class *awsv1.EC2NodeClass, settings catalog.NodeClass) string {
	if class == nil {
		return ""
	}
	object := "EC2NodeClass " + class.Name
	if !catalog.Supported(settings.AMIFamily) {
		return b.problem(object, "spec.amiSelectorTerms", "AMI family %q: AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Windows2025 or Custom is expected", settings.AMIFamily)
	}
	if root := class.StatusConditions().Root(); root != nil && root.IsFalse() {
		return object + " is not ready: " + root.Message
	}
	return ""
}

// zones returns the zones of the files. Without any, it returns those that the objects name: subnets of EC2NodeClasses, and
// nodes. Without any there, it returns three of the built-in catalog's region.
func (m *Market) zones(objects *input.Objects) []string {
	if len(m.Zones) > 0 {
		return m.Zones
	}
	found := map[string]bool{}
	for _, class := range objects.NodeClasses {
		for _, s := range class.Status.Subnets {
			found[s.Zone] = true
		}
	}
	for _, n := range objects.Nodes {
		found[n.Labels[corev1.LabelTopologyZone]] = true
	}
	delete(found, "")
	out := slices.Sorted(maps.Keys(found))
	if len(out) == 0 {
		out = []string{builtin.Region + "a", builtin.Region + "b", builtin.Region + "c"}
	}
	if len(out) > maxZones {
		m.problem("", "zones", "EC2NodeClasses and nodes name %d zones: the first %d by name are planned for", len(out), maxZones)
		out = out[:maxZones]
	}
	m.Notes = append(m.Notes, "zones: "+strings.Join(out, ", "))
	return out
}

// zonesOf returns the zones of the class's subnets if its status has them, otherwise all.
func zonesOf(class *awsv1.EC2NodeClass, all []string) []zone {
	ids := map[string]string{}
	if class != nil {
		for _, s := range class.Status.Subnets {
			ids[s.Zone] = s.ZoneID
		}
	}
	var out []zone
	for _, name := range all {
		if id, ok := ids[name]; ok || len(ids) == 0 {
			out = append(out, zone{name, id})
		}
	}
	return out
}

// region returns the region of a zone such as us-east-1a, or of a local zone such as us-west-2-lax-1a: up to the first number.
func region(zone string) string {
	if at := strings.IndexAny(zone, "0123456789"); at > 0 {
		return zone[:at] + strings.TrimRight(strings.SplitN(zone[at:], "-", 2)[0], "abcdefghijklmnopqrstuvwxyz")
	}
	return zone
}

// usage returns what counts against the limits: the capacity of the NodePool's nodes, in flight too. If the input has no nodes,
// it is the usage in the NodePool's status.
func (b *builder) usage(p *karpv1.NodePool, objects *input.Objects, nodes map[string]*corev1.Node) corev1.ResourceList {
	if len(objects.Nodes)+len(objects.NodeClaims) == 0 {
		return corev1.ResourceList(p.Status.Resources).DeepCopy()
	}
	out, count, usd := corev1.ResourceList{}, int64(0), newUSDSum(b.state.NodePools[p.Name], b.state.TypesOf(p.Name))
	add := func(lists ...corev1.ResourceList) {
		count++
		for _, list := range lists {
			for name, q := range list {
				sum := out[name]
				sum.Add(q)
				out[name] = sum
			}
			if len(list) > 0 {
				return
			}
		}
	}
	for _, n := range objects.Nodes {
		if n.Labels[karpv1.NodePoolLabelKey] == p.Name {
			add(n.Status.Capacity, n.Status.Allocatable)
			usd.add(n.Labels)
		}
	}
	for _, c := range objects.NodeClaims {
		if c.Labels[karpv1.NodePoolLabelKey] == p.Name && nodes[c.Status.NodeName] == nil {
			add(c.Status.Capacity, b.capacity(c))
			usd.add(b.state.InFlight[c.Name].ExpectedLabels(c.Labels))
		}
	}
	if _, limited := b.state.NodePools[p.Name].Limits[catalog.LimitUSD]; limited {
		out[catalog.LimitUSD] = catalog.USDQuantity(usd.micro)
	}
	out[resourceNodes] = *resource.NewQuantity(count, resource.DecimalSI)
	return out
}
