package parity_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	// hostileEvery is how often a case has hostile pods beside its ordinary ones: each whose seed is a multiple.
	hostileEvery = 100
	// hostileNamespace is where they are; no ordinary pod is in it.
	hostileNamespace = "hostile"
	// mostElements is how many elements the lists of all hostile pods of a case have together, per kind of list. One pod of the API
	// server's megabyte has some 8,000.
	mostElements = 20000
)

// hostile says whether the pod is one of those that ask for more work than they are worth.
func hostile(p *corev1.Pod) bool { return p.Namespace == hostileNamespace }

// hostile says whether the case has any such pods, or DaemonSets of the same namespace.
func (c *cluster) hostile() bool {
	return slices.ContainsFunc(c.pods, hostile) || slices.ContainsFunc(c.daemonSets, func(ds *appsv1.DaemonSet) bool { return ds.Namespace == hostileNamespace })
}

// innocent is the case without what is hostile.
func (c *cluster) innocent() *cluster {
	out := c.clone()
	out.pods = slices.DeleteFunc(out.pods, hostile)
	out.daemonSets = slices.DeleteFunc(out.daemonSets, func(ds *appsv1.DaemonSet) bool { return ds.Namespace == hostileNamespace })
	return out
}

// part is a place among the hostile pods of one template: pod number i of so many, with lists of size elements.
type part struct{ i, pods, size int }

// attack makes a pod ask for more than it is worth.
type attack func(d dice, p *corev1.Pod, at part)

func attacks() []attack {
	return []attack{
		quantities, quantities, spreadMuch, affineMuch, affineMuch, nodesMuch, tolerateMuch, extendedMuch, ownedMuch, namedLong, portsMuch,
		selectMuch, ring, gangMuch,
	}
}

// hostility adds pods, and rarely a DaemonSet, that ask for as much work as they can. The API server takes all of them but for negative
// requests, which `slipway simulate -f` reads from files.
func (d dice) hostility(c *cluster) {
	c.namespaces = append(c.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: hostileNamespace, Labels: map[string]string{corev1.LabelMetadataName: hostileNamespace, "team": "hostile"},
	}})
	for t := range 1 + d.IntN(2) {
		pods := pick(d, 1, 1, 2, 4, 20, 40)
		at := part{pods: pods, size: min(pick(d, 40, 128, 129, 1000, 5000), mostElements/pods)}
		chosen := some(d, attacks()...)
		chosen = chosen[:min(len(chosen), 3)]
		seed := [2]uint64{d.Uint64(), d.Uint64()}
		alike := d.IntN(2) == 0
		for at.i = range pods {
			one := d
			if alike {
				one.Rand = newRand(seed)
			}
			c.pods = append(c.pods, one.hostilePod(c, t, at, chosen))
		}
	}
	if d.IntN(4) == 0 {
		c.daemonSets = append(c.daemonSets, d.hostileDaemonSet())
	}
}

func (d dice) hostilePod(c *cluster, template int, at part, attacks []attack) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: hostileNamespace, Name: fmt.Sprintf("hostile%d-%d", template, at.i), Labels: map[string]string{"app": "hostile"},
	}}
	p.Spec.SchedulerName = "default-scheduler"
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox"}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(50+d.IntN(50)), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	p.Spec.Affinity = &corev1.Affinity{}
	for _, f := range attacks {
		f(d, p, at)
	}
	p.Spec.TopologySpreadConstraints = distinct(p.Spec.TopologySpreadConstraints)
	p.UID = types.UID(p.Name)
	if len(c.nodes) > 0 && d.IntN(3) == 0 {
		p.Spec.NodeName = pick(d, c.nodes...).Name
	}
	return p
}

// hostileDaemonSet has requests that no node could have, or long lists.
func (d dice) hostileDaemonSet() *appsv1.DaemonSet {
	ds := d.daemonSet(9)
	ds.Namespace = hostileNamespace
	template := &corev1.Pod{ObjectMeta: ds.Spec.Template.ObjectMeta, Spec: ds.Spec.Template.Spec}
	template.Spec.Affinity = &corev1.Affinity{}
	at := part{pods: 1, size: pick(d, 40, 1000, 5000)}
	switch d.IntN(3) {
	case 0:
		tolerateMuch(d, template, at)
		preferMuch(d, template, at)
	case 1:
		template.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: nodeTerms(d, at.size)}
	default:
		request(template.Spec.Containers, 0, pick(d, corev1.ResourceCPU, corev1.ResourceMemory), pick(d, "-1", "-100m", "9223372036854775808", "-1e40", "1e46"))
	}
	ds.Spec.Template.Spec = template.Spec
	return ds
}

// quantities gives the pod requests around and beyond what an int64 and a float64 can hold, and negative ones.
func quantities(d dice, p *corev1.Pod, _ part) {
	name := pick(d, corev1.ResourceCPU, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "nvidia.com/gpu", "hugepages-2Mi", "example.com/thing")
	value := pick(d,
		"9999999999999999999999999999999999999999999999", "9223372036854775807", "9223372036854775808", "9007199254740992", "9007199254740991",
		"9007199254740", "4503599627370496", "1E", "8Ei", "1e30", "1n", "1m", "-1", "-1m", "-9223372036854775809", "-1e40",
	)
	always := corev1.ContainerRestartPolicyAlways
	s := &p.Spec
	switch d.IntN(6) {
	case 0:
		s.InitContainers = append(s.InitContainers, corev1.Container{Name: "init", Image: "busybox"})
		request(s.InitContainers, len(s.InitContainers)-1, name, value)
	case 1:
		s.InitContainers = append(s.InitContainers, corev1.Container{Name: "sidecar", Image: "busybox", RestartPolicy: &always})
		request(s.InitContainers, len(s.InitContainers)-1, name, value)
	case 2:
		s.Overhead = corev1.ResourceList{name: resource.MustParse(value)}
	case 3:
		s.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(value)}}
	case 4:
		s.Containers = append(s.Containers, corev1.Container{Name: fmt.Sprintf("c%d", len(s.Containers)), Image: "busybox"})
		request(s.Containers, len(s.Containers)-1, name, value)
		request(s.Containers, 0, name, value)
	default:
		request(s.Containers, 0, name, value)
	}
}

// request makes the container ask for so much.
func request(list []corev1.Container, i int, name corev1.ResourceName, value string) {
	r := &list[i].Resources
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	r.Requests[name] = resource.MustParse(value)
}

// ownKey is a label that no node has, or now and then one that all have.
func ownKey(d dice, i int) string {
	if d.IntN(16) == 0 {
		return d.key()
	}
	return fmt.Sprintf("example.com/key-%d", i)
}

// wide is a selector of pods: of all, of its own, of one of many, or of none.
func wide(d dice, i int) *metav1.LabelSelector {
	switch d.IntN(4) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": strconv.Itoa(i)}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}, {Key: "nothing", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "hostile"}}
}

func spreadMuch(d dice, p *corev1.Pod, at part) {
	action := pick(d, corev1.ScheduleAnyway, corev1.ScheduleAnyway, corev1.DoNotSchedule)
	for i := range at.size {
		s := corev1.TopologySpreadConstraint{MaxSkew: pick[int32](d, 1, 2, math.MaxInt32), TopologyKey: ownKey(d, i), WhenUnsatisfiable: action, LabelSelector: wide(d, i)}
		if action == corev1.DoNotSchedule && d.IntN(8) == 0 {
			s.MinDomains = new(pick[int32](d, 1, 7, math.MaxInt32))
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, s)
	}
}

func affineMuch(d dice, p *corev1.Pod, at part) {
	if d.IntN(2) == 0 {
		preferMuch(d, p, at)
		return
	}
	apart := d.IntN(2) == 0
	terms := podTerms(d, at.size, d.IntN(2) == 0)
	if a := p.Spec.Affinity; apart {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	} else {
		a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

// preferMuch gives the pod preferred affinity to, or away from, pods.
func preferMuch(d dice, p *corev1.Pod, at part) {
	var terms []corev1.WeightedPodAffinityTerm
	for _, t := range podTerms(d, at.size, true) {
		terms = append(terms, corev1.WeightedPodAffinityTerm{Weight: int32(1 + d.IntN(100)), PodAffinityTerm: t})
	}
	if d.IntN(2) == 0 {
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}
	} else {
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

// podTerms are n terms, some of which reach into all namespaces if beyond.
func podTerms(d dice, n int, beyond bool) []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	for i := range n {
		t := corev1.PodAffinityTerm{TopologyKey: ownKey(d, i), LabelSelector: wide(d, i)}
		if beyond && d.IntN(8) == 0 {
			t.NamespaceSelector = &metav1.LabelSelector{}
		}
		out = append(out, t)
	}
	return out
}

func nodesMuch(d dice, p *corev1.Pod, at part) {
	if d.IntN(2) == 0 {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: nodeTerms(d, at.size)}
		return
	}
	a := &corev1.NodeAffinity{}
	for _, t := range nodeTerms(d, at.size).NodeSelectorTerms {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{Weight: int32(1 + d.IntN(100)), Preference: t})
	}
	p.Spec.Affinity.NodeAffinity = a
}

// nodeTerms are n terms of one expression, or one term of n expressions, or one expression of n values. A term has at most 1,000: the
// scheduler's own filter takes the square of their number.
func nodeTerms(d dice, n int) *corev1.NodeSelector {
	n = min(n, 1000)
	var list []corev1.NodeSelectorRequirement
	for i := range n {
		e := d.expression()
		if d.IntN(2) == 0 {
			e = corev1.NodeSelectorRequirement{Key: fmt.Sprintf("example.com/key-%d", i), Operator: pick(d, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpNotIn), Values: []string{"x"}}
			if e.Operator == corev1.NodeSelectorOpDoesNotExist {
				e.Values = nil
			}
		}
		list = append(list, e)
	}
	switch d.IntN(3) {
	case 0:
		values := []string{"m5.large"}
		for i := range n {
			values = append(values, fmt.Sprintf("type-%d", i))
		}
		list = []corev1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: pick(d, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: values}}
	case 1:
		s := &corev1.NodeSelector{}
		for i := range list {
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: list[i : i+1]})
		}
		return s
	}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: list}}}
}

func tolerateMuch(d dice, p *corev1.Pod, at part) {
	for i := range at.size {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("example.com/key-%d", i), Operator: corev1.TolerationOpExists})
	}
	if d.IntN(2) == 0 {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	}
}

// extendedMuch asks for resources that no node has: of each pod one of its own, or all of a long list, each 0 or 1.
func extendedMuch(d dice, p *corev1.Pod, at part) {
	if d.IntN(2) == 0 {
		request(p.Spec.Containers, 0, corev1.ResourceName(fmt.Sprintf("example.com/r-%d", at.i)), "1")
		return
	}
	value := pick(d, "0", "1")
	for i := range at.size {
		request(p.Spec.Containers, 0, corev1.ResourceName(fmt.Sprintf("example.com/r-%d", i)), value)
	}
}

func ownedMuch(d dice, p *corev1.Pod, at part) {
	for i := range at.size {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
			APIVersion: "example.com/v1", Kind: pick(d, "Foo", "ReplicaSet", "Node"), Name: strconv.Itoa(i), UID: types.UID(strconv.Itoa(i)),
		})
	}
	p.OwnerReferences[0].Controller = new(true)
}

// namedLong has names, keys and values of the greatest length.
func namedLong(d dice, p *corev1.Pod, at part) {
	p.Name = fmt.Sprintf("%s-%0*d", p.Name, 252-len(p.Name), at.i)
	for i := range min(at.size, 1000) {
		p.Labels[fmt.Sprintf("%0253d/%063d", i, i)] = strings.Repeat("v", 63)
	}
	long := fmt.Sprintf("%0253d", d.IntN(2))
	own := &metav1.LabelSelector{MatchLabels: map[string]string{long + "/" + long[190:]: strings.Repeat("v", 63)}}
	p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: pick(d, long+"/"+long[190:], corev1.LabelTopologyZone), WhenUnsatisfiable: pick(d, corev1.ScheduleAnyway, corev1.DoNotSchedule), LabelSelector: own,
	})
}

// portsMuch takes many host ports, the same as others or its own, or few of its own.
func portsMuch(d dice, p *corev1.Pod, at part) {
	first, n := pick(d, 0, at.i*at.size, at.i), min(at.size, 60000)
	if d.IntN(3) == 0 {
		n = 1 + d.IntN(3)
	}
	for i := range n {
		port := int32(1 + (first+i)%60000)
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{
			ContainerPort: port, HostPort: port, Protocol: corev1.ProtocolTCP, HostIP: pick(d, "", "127.0.0.1"),
		})
	}
}

// selectMuch has one selector of many expressions, and of one with many values; now and then a node selector of many labels.
func selectMuch(d dice, p *corev1.Pod, at part) {
	values := []string{"hostile"}
	own := &metav1.LabelSelector{}
	for i := range at.size {
		values = append(values, strconv.Itoa(i))
		own.MatchExpressions = append(own.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprintf("example.com/key-%d", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	own.MatchExpressions = append(own.MatchExpressions, metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: values})
	p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: d.key(), WhenUnsatisfiable: pick(d, corev1.ScheduleAnyway, corev1.DoNotSchedule), LabelSelector: own,
	})
	if d.IntN(4) == 0 {
		p.Spec.NodeSelector = map[string]string{}
		for i := range at.size {
			p.Spec.NodeSelector[fmt.Sprintf("example.com/key-%d", i)] = "x"
		}
	}
}

// ring has required affinity of each pod to the next one.
func ring(d dice, p *corev1.Pod, at part) {
	p.Labels["ring"] = strconv.Itoa(at.i)
	next := &metav1.LabelSelector{MatchLabels: map[string]string{"ring": strconv.Itoa((at.i + 1) % at.pods)}}
	p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: d.key(), LabelSelector: next}}}
}

// gangMuch is of a gang that never completes, or one whose size is no number.
func gangMuch(d dice, p *corev1.Pod, _ part) {
	p.Labels[plan.LabelGang] = pick(d, "red", strings.Repeat("g", 63))
	p.Annotations = map[string]string{plan.KeyGangSize: pick(d, "1", "2", "2147483647", "9223372036854775807", "9223372036854775808", "-1", "many")}
	p.Spec.Priority = new(pick[int32](d, math.MinInt32, 0, math.MaxInt32))
}
