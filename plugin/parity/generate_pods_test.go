package parity_test

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// nodes adds nodes that exist, with pods.
func (d dice) nodes(c *cluster) {
	for i := range 1 + d.IntN(3) {
		t := pick(d, c.types...)
		it, err := t.shape(c.zones)
		if err != nil || len(it.Offerings) == 0 {
			continue
		}
		pool := pick(d, c.pools...)
		labels := nodeLabels(pool, it, pick(d, it.Offerings...))
		var taints []corev1.Taint
		taints = append(taints, pool.Taints...)
		switch d.IntN(8) {
		case 0:
			delete(labels, corev1.LabelTopologyZone)
			delete(labels, corev1.LabelFailureDomainBetaZone)
			delete(labels, "topology.ebs.csi.aws.com/zone") // A driver's label stands for the zone only beside it.
		case 1:
			taints = append(taints, d.taint())
		case 2:
			labels["example.com/team"] = pick(d, "blue", "red")
		}
		n := newNode(fmt.Sprintf("node-%d", i), labels, taints, it)
		n.UID = types.UID(n.Name)
		if d.IntN(8) == 0 {
			n.Spec.Unschedulable = true
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
		if d.on("starting") {
			n.Annotations = map[string]string{startingAnnotation: "true"}
		}
		c.nodes = append(c.nodes, n)
		for k := range d.IntN(3) {
			p := d.template(c, d.IntN(3))
			p.Name = fmt.Sprintf("old-%d-%d", i, k)
			p.UID = types.UID(p.Name)
			p.Spec.NodeName = n.Name
			p.Spec.Volumes = nil
			if d.on("attach") || d.on("volume") {
				d.attached(c, p, n)
			}
			c.pods = append(c.pods, p)
		}
	}
}

// template is a pod of which the case has several.
func (d dice) template(c *cluster, i int) *corev1.Pod {
	app := []string{"a", "b", "c", "d"}[i%4]
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("%s%d", app, i), Labels: map[string]string{"app": app},
	}}
	if d.on("namespace") {
		p.Namespace = pick(d, "blue", "red")
	}
	if d.on("version") {
		p.Labels["version"] = pick(d, "1", "2")
	}
	if d.on("gang") {
		p.Labels[plan.LabelGang] = pick(d, "red", "blue")
		if d.IntN(2) == 0 {
			p.Annotations = map[string]string{plan.KeyGangSize: strconv.Itoa(1 + d.IntN(4))}
		}
	}
	p.Spec.SchedulerName = "default-scheduler"
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox"}}
	p.Spec.Containers[0].Resources.Requests = d.requests()
	if d.on("init") {
		d.more(&p.Spec)
	}
	if d.on("priority") {
		n := int32(d.IntN(3))
		p.Spec.Priority = &n
	}
	if d.on("selector") {
		e := d.expression()
		for len(e.Values) == 0 || e.Operator != corev1.NodeSelectorOpIn {
			e = d.expression()
		}
		p.Spec.NodeSelector = map[string]string{e.Key: e.Values[0]}
	}
	if d.on("taint") {
		p.Spec.Tolerations = append(p.Spec.Tolerations, pick(d,
			corev1.Toleration{Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule},
			corev1.Toleration{Key: "arm", Value: "x"},
		))
	}
	p.Spec.Affinity = d.affinity(app)
	if d.features["spread"] {
		for range d.IntN(3) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, d.spread(app))
		}
		p.Spec.TopologySpreadConstraints = distinct(p.Spec.TopologySpreadConstraints)
	}
	d.devices(c, p)
	return p
}

// devices are what a pod asks of its node beyond cores and memory.
func (d dice) devices(c *cluster, p *corev1.Pod) {
	if d.on("device") {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("any")}}
	}
	if d.on("port") {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{d.port()}
	}
	if d.on("volume") {
		d.volume(c, p)
	}
}

// distinct leaves out what the API server refuses: two constraints of the same key and action.
func distinct(in []corev1.TopologySpreadConstraint) []corev1.TopologySpreadConstraint {
	var out []corev1.TopologySpreadConstraint
	seen := map[string]bool{}
	for _, c := range in {
		if key := c.TopologyKey + string(c.WhenUnsatisfiable); !seen[key] {
			seen[key] = true
			out = append(out, c)
		}
	}
	return out
}

func (d dice) requests() corev1.ResourceList {
	cpu := pick(d, 0, 50, 100, 250, 500, 900, 1000, 1500)
	memory := pick(d, 0, 64, 128, 512, 1000, 1500, 3000)
	if d.on("big") {
		cpu, memory = pick(d, 1930, 2000, 3000, 3920, 7000, 9000), pick(d, 1000, 6000, 12000, 30000)
	}
	out := corev1.ResourceList{}
	if cpu > 0 {
		out[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(cpu), resource.DecimalSI)
	}
	if memory > 0 {
		out[corev1.ResourceMemory] = *resource.NewQuantity(int64(memory)<<20, resource.BinarySI)
	}
	if d.on("big") && d.IntN(2) == 0 {
		out["nvidia.com/gpu"] = quantity(1)
	}
	if d.on("big") && d.IntN(2) == 0 {
		out[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(1+d.IntN(20))<<30, resource.BinarySI)
	}
	return out
}

// more gives the pod init containers, a sidecar, an overhead or requests of its own.
func (d dice) more(s *corev1.PodSpec) {
	always := corev1.ContainerRestartPolicyAlways
	init := corev1.Container{Name: "init", Image: "busybox", Resources: corev1.ResourceRequirements{Requests: d.requests()}}
	switch d.IntN(4) {
	case 0:
		s.InitContainers = []corev1.Container{init}
	case 1:
		init.Name, init.RestartPolicy = "sidecar", &always
		s.InitContainers = []corev1.Container{init}
	case 2:
		s.Overhead = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(250, resource.DecimalSI)}
	case 3:
		s.Containers = append(s.Containers, corev1.Container{Name: "second", Image: "busybox", Resources: corev1.ResourceRequirements{Requests: d.requests()}})
	}
}

func (d dice) port() corev1.ContainerPort {
	n := int32(8080 + d.IntN(2))
	return corev1.ContainerPort{ContainerPort: n, HostPort: n, Protocol: pick(d, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP), HostIP: pick(d, "", "", "127.0.0.1")}
}

func (d dice) affinity(app string) *corev1.Affinity {
	out := &corev1.Affinity{}
	used := false
	if d.on("nodeAffinity") {
		used = true
		s := &corev1.NodeSelector{}
		for range 1 + d.IntN(2) {
			t := corev1.NodeSelectorTerm{}
			for range 1 + d.IntN(2) {
				t.MatchExpressions = append(t.MatchExpressions, d.expression())
			}
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, t)
		}
		out.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}
	}
	if d.on("preference") {
		used = true
		if out.NodeAffinity == nil {
			out.NodeAffinity = &corev1.NodeAffinity{}
		}
		out.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{
			Weight: 10, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{d.expression()}},
		}}
	}
	if d.on("affinity") {
		used = true
		out.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{d.term(app)}}
	}
	if d.on("antiAffinity") {
		used = true
		out.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{d.term(app)}}
	}
	if d.on("preference") {
		used = true
		if out.PodAntiAffinity == nil {
			out.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		out.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 10, PodAffinityTerm: d.term(app)}}
	}
	if !used {
		return nil
	}
	return out
}

func (d dice) key() string {
	return pick(d, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelHostname, corev1.LabelHostname, "karpenter.sh/capacity-type", "example.com/owner")
}

func (d dice) labelSelector(app string) *metav1.LabelSelector {
	switch d.IntN(8) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(d, "a", "b", "c")}}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{app, pick(d, "a", "b")}}}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "version", Operator: pick(d, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	case 3:
		return pick(d, &metav1.LabelSelector{}, nil)
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func (d dice) term(app string) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: d.key(), LabelSelector: d.labelSelector(app)}
	switch {
	case d.on("namespace"):
		t.NamespaceSelector = pick(d, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(d, "blue", "red")}})
	case d.on("namespace"):
		t.Namespaces = some(d, "default", "blue", "red")
	}
	return t
}

func (d dice) spread(app string) corev1.TopologySpreadConstraint {
	s := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + d.IntN(2)), TopologyKey: d.key(), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: d.labelSelector(app),
	}
	if d.features["preference"] && d.IntN(3) == 0 {
		s.WhenUnsatisfiable = corev1.ScheduleAnyway
	}
	if d.IntN(4) == 0 && s.WhenUnsatisfiable == corev1.DoNotSchedule {
		n := int32(1 + d.IntN(3))
		s.MinDomains = &n
	}
	if d.IntN(4) == 0 {
		s.NodeAffinityPolicy = new(pick(d, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
	}
	if d.IntN(4) == 0 {
		s.NodeTaintsPolicy = new(pick(d, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
	}
	if d.features["version"] && d.IntN(2) == 0 && s.LabelSelector != nil {
		s.MatchLabelKeys = []string{"version"}
	}
	return s
}
