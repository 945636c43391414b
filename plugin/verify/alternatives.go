package verify

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
)

// variant is one way in which EC2 may launch a claim: an instance type in an offering that the claim's requirements allow.
type variant struct {
	of     plan.Offer
	labels map[string]string
	shape  *shape
	// daemons is the node with its DaemonSet pods alone.
	daemons *framework.NodeInfo
	// signature is equal for variants that differ for the filters in their size alone.
	signature string
}

// place is an offering as EC2 may launch a claim.
type place struct{ instanceType, zone, capacityType, reservation string }

// shape is an instance type with its resources as the filters count them.
type shape struct {
	*catalog.InstanceType
	allocatable *framework.Resource
}

// alternatives asks the filters about the other ways in which EC2 may launch the claims. It records for each claim those that
// would not run its pods. Resources are compared as sums. The filters are asked once for all variants with the same signature,
// and once for claims that are alike.
func (v *Verifier) alternatives(ctx context.Context, s *scene, asked map[int]*trial, out *Result) error {
	out.Bad = map[int][]plan.Offer{}
	known := map[string][]plan.Offer{}
	for i := range s.claims {
		c := &s.claims[i]
		if len(c.Alternatives) == 0 {
			continue
		}
		like := likeness(c)
		bad, ok := known[like]
		if !ok {
			var err error
			if ctx.Err() == nil && len(out.Unchecked) == 0 {
				bad, err = v.badVariants(ctx, s, i, asked)
			}
			if ctx.Err() != nil || len(out.Unchecked) > 0 {
				out.UncheckedClaims = append(out.UncheckedClaims, i)
				continue
			}
			if err != nil {
				return err
			}
			known[like] = bad
		}
		if len(bad) > 0 {
			out.Bad[i] = bad
		}
	}
	return nil
}

// likeness is equal for claims that differ only in their name and in which pods of a class they have.
func likeness(c *plan.Claim) string {
	var b strings.Builder
	for _, text := range [][]string{{c.NodePool, c.Expected.InstanceType, c.Expected.Zone, c.Expected.CapacityType}, c.Alternatives} {
		for _, t := range text {
			b.WriteString(t)
			b.WriteByte(';')
		}
	}
	for _, r := range c.Requirements {
		b.WriteString(r.Key)
		for _, v := range r.Values {
			b.WriteByte(',')
			b.WriteString(v)
		}
	}
	for _, m := range c.Members {
		b.WriteString(";" + strconv.Itoa(m.Class) + "x" + strconv.Itoa(len(m.Pods)))
	}
	return b.String()
}

func (v *Verifier) badVariants(ctx context.Context, s *scene, index int, asked map[int]*trial) ([]plan.Offer, error) {
	c, spots := &s.claims[index], s.ofClaim[index]
	if len(spots) == 0 {
		return nil, nil
	}
	total := podsTotal(spots)
	signature := func(x *variant) string { return x.signature }
	if slices.ContainsFunc(spots, func(at *spot) bool { return v.further[at.class.Pod.Spec.SchedulerName] }) {
		// What the plugins of others look at is not known.
		signature = func(x *variant) string { return x.of.InstanceType + "/" + x.of.Zone + "/" + x.of.CapacityType }
	}
	seen := map[string]bool{} // by signature: whether the filters let it pass
	variants := s.variants(c)
	for _, x := range variants {
		if x.of.Same(c.Expected) {
			seen[signature(x)] = true // The filters were asked about the expected node already.
		}
	}
	var bad []plan.Offer
	for _, x := range variants {
		if x.of.Same(c.Expected) {
			continue
		}
		if !x.holds(total, spots) || slices.ContainsFunc(spots, func(at *spot) bool { return asked[at.index] != nil && asked[at.index].refused[x] }) {
			bad = append(bad, x.of)
			continue
		}
		fine, ok := seen[signature(x)]
		if !ok {
			var err error
			if fine, err = v.runsAll(ctx, spots, x, asked); err != nil {
				return nil, err
			}
			seen[signature(x)] = fine
		}
		if !fine {
			bad = append(bad, x.of)
		}
	}
	return bad, nil
}

// podsTotal returns the sum of the requests of the node's planned pods.
func podsTotal(spots []*spot) *framework.Resource {
	total := framework.NewNodeInfo()
	for _, at := range spots {
		for _, p := range at.pods {
			total.AddPodInfo(p)
		}
	}
	return total.Requested
}

// holds reports whether the pods and the DaemonSet pods fit by the sums of their requests.
func (x *variant) holds(total *framework.Resource, spots []*spot) bool {
	pods, volumes := len(x.daemons.Pods), map[string]bool{}
	for _, at := range spots {
		pods += len(at.pods)
		for _, vol := range at.class.Volumes {
			if vol.Driver == podclass.EBSDriver {
				volumes[at.class.Pod.Namespace+"/"+vol.Claim] = true
			}
		}
	}
	used, have := x.daemons.Requested, x.shape.allocatable
	within := func(asked, daemons, have int64) bool { return asked == 0 || asked+daemons <= have }
	if pods > have.AllowedPodNumber || !within(total.MilliCPU, used.MilliCPU, have.MilliCPU) || !within(total.Memory, used.Memory, have.Memory) ||
		!within(total.EphemeralStorage, used.EphemeralStorage, have.EphemeralStorage) {
		return false
	}
	for name, n := range total.ScalarResources {
		if !within(n, used.ScalarResources[name], have.ScalarResources[name]) {
			return false
		}
	}
	return x.shape.VolumeAttachments <= 0 || int64(len(volumes)) <= x.shape.VolumeAttachments
}

// runsAll asks the filters whether one pod of each class may be on the variant, with the other pods there instead of on the
// expected node.
func (v *Verifier) runsAll(ctx context.Context, spots []*spot, x *variant, asked map[int]*trial) (bool, error) {
	expected, moved := spots[0].node, x.with(spots)
	for _, at := range spots {
		t := asked[at.index]
		if t == nil {
			return true, nil // PreFilter has rejected the class: that verdict is reported.
		}
		st, err := t.instead(ctx, at, expected, moved)
		if err != nil {
			return false, err
		}
		if !st.IsSuccess() {
			klog.FromContext(ctx).V(5).Info("An alternative does not run the pods", "nodeClaim", expected.Node().Name, "alternative", x.of, "why", reason(st))
			return false, nil
		}
	}
	return true, nil
}

// with returns the variant as a node, with the pods of the spots of one claim on it.
func (x *variant) with(spots []*spot) *framework.NodeInfo {
	expected, moved := spots[0].node.Node(), x.daemons.SnapshotConcrete()
	moved.SetNode(clusterview.VirtualNode(expected.Name, maps.Clone(x.labels), expected.Spec.Taints, x.shape.Allocatable))
	for _, at := range spots {
		for _, p := range at.pods {
			moved.AddPodInfo(p)
		}
	}
	return moved
}

// reject rules out pods of the class on the variant.
func (x *variant) reject(classKey, nodePool, why string) plan.Rejection {
	return plan.Rejection{
		ClassKey: classKey, NodePool: nodePool, InstanceType: x.of.InstanceType, Zone: x.of.Zone, CapacityType: x.of.CapacityType, Reason: why,
	}
}

// instead asks the filters about the spot's first pod on a node that takes the place of the expected one. It changes what
// PreFilter counted for the question, and changes it back.
func (t *trial) instead(ctx context.Context, at *spot, expected, moved *framework.NodeInfo) (*fwk.Status, error) {
	self := at.pods[0]
	var err error
	if err := moved.RemovePod(klog.FromContext(ctx), self.Pod); err != nil {
		return nil, err
	}
	defer moved.AddPodInfo(self)
	if takesPorts(self) {
		keepPorts(moved)
	}
	count := func(pods []fwk.PodInfo, on *framework.NodeInfo, came bool) {
		for _, p := range pods {
			err = errors.Join(err, t.count(ctx, self.Pod, p, on, came))
		}
	}
	count(expected.Pods, expected, false)
	count(moved.Pods, moved, true)
	status, bad := t.ask(ctx, self.Pod, moved)
	count(moved.Pods, moved, false)
	count(expected.Pods, expected, true)
	return status, errors.Join(err, bad)
}

// variants returns the available offerings of the claim's alternatives that its requirements allow, the expected one included.
// Claims with the same alternatives share the result.
func (s *scene) variants(c *plan.Claim) []*variant {
	open := openLabels(c)
	key := variantsKey(c, open)
	if out, known := s.variantsOf[key]; known {
		return out
	}
	var pinned strings.Builder
	for _, k := range slices.Sorted(maps.Keys(open)) {
		pinned.WriteString("/" + k + "=" + open[k])
	}
	of := s.known[c.NodePool+pinned.String()]
	if of == nil {
		of = map[place]*variant{}
		s.known[c.NodePool+pinned.String()] = of
	}
	var out []*variant
	for _, name := range c.Alternatives {
		sh := s.shape(c.NodePool, name)
		if sh == nil {
			continue
		}
		for _, o := range sh.Offerings {
			if c.AllowsOffering(&o) {
				at := place{sh.Name, o.Zone, o.CapacityType, o.ReservationID}
				if of[at] == nil {
					of[at] = s.variant(c, sh, o, open)
				}
				out = append(out, of[at])
			}
		}
	}
	s.variantsOf[key] = out
	return out
}

// variantsKey is equal for claims that may be launched in the same ways.
func variantsKey(c *plan.Claim, open map[string]string) string {
	key := append([]byte(c.NodePool), '\n')
	list := func(values []string) {
		for _, v := range values {
			key = append(append(key, v...), ',')
		}
		key = append(key, '\n')
	}
	for _, k := range slices.Sorted(maps.Keys(open)) {
		list([]string{k, open[k]})
	}
	for _, r := range c.Requirements {
		if r.Key == corev1.LabelTopologyZone || r.Key == clusterview.LabelCapacityType || r.Key == catalog.LabelReservationID {
			list([]string{r.Key})
			list(r.Values)
		}
	}
	list(c.Alternatives)
	return string(key)
}

func (s *scene) shape(pool, name string) *shape {
	key := s.cat.NodePools[pool].TypesKey() + "/" + name
	if sh, ok := s.shapes[key]; ok {
		return sh
	}
	types := s.cat.TypesOf(pool)
	at := slices.IndexFunc(types, func(t catalog.InstanceType) bool { return t.Name == name })
	if at < 0 {
		s.shapes[key] = nil
		return nil
	}
	s.shapes[key] = &shape{InstanceType: &types[at], allocatable: framework.NewResource(types[at].Allocatable)}
	return s.shapes[key]
}

func byName(a, b *appsv1.DaemonSet) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// variant returns the type in the offering. Claims of one NodePool that pin the same labels share the result.
func (s *scene) variant(c *plan.Claim, sh *shape, o catalog.Offering, open map[string]string) *variant {
	pool := s.cat.NodePools[c.NodePool]
	labels := clusterview.OfferingLabels(pool, *sh.InstanceType, o)
	for k, v := range open {
		if _, ok := labels[k]; !ok {
			labels[k] = v
		}
	}
	x := &variant{
		of:     plan.Offer{InstanceType: sh.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price},
		labels: labels, shape: sh,
	}
	x.daemons = framework.NewNodeInfo()
	x.daemons.SetNode(clusterview.VirtualNode("variant", maps.Clone(labels), c.Taints, sh.Allocatable))
	var b strings.Builder
	var matter []string // A node has few labels; pods may name any number.
	for k := range x.labels {
		if s.matters()[k] {
			matter = append(matter, k)
		}
	}
	slices.Sort(matter)
	for _, k := range matter {
		b.WriteString(k + "=" + x.labels[k] + ";")
	}
	for _, ds := range slices.SortedFunc(maps.Values(s.view.AddDaemons(x.daemons, nil)), byName) {
		b.WriteString(ds.Namespace + "/" + ds.Name + ";")
	}
	x.signature = b.String()
	return x
}

// openLabels returns the labels that the claim's requirements pin to one value, without those of an offering and of a type.
func openLabels(c *plan.Claim) map[string]string {
	out := map[string]string{}
	for _, r := range c.Requirements {
		if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			out[r.Key] = r.Values[0]
		}
	}
	for _, k := range []string{corev1.LabelTopologyZone, clusterview.LabelCapacityType, corev1.LabelInstanceTypeStable, corev1.LabelArchStable} {
		delete(out, k)
	}
	return out
}
