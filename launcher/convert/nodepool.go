package convert

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	nodePoolVersion  = "karpenter.sh/v1"
	nodeClassVersion = "karpenter.k8s.aws/v1"
	nodeClassKind    = "EC2NodeClass"
	// never is v1's value for a duration without end.
	never = "Never"
)

// kubelet holds the kubelet settings of a NodePool: v1 has them in the EC2NodeClass.
type kubelet struct {
	pool     map[string]any
	class    string
	settings map[string]any
	object   string
	field    string
}

// provisioner converts v1alpha5's Provisioner to a NodePool, and its inline provider, if any, to an EC2NodeClass.
func (c *conversion) provisioner(f *fields) []map[string]any {
	metadata := f.metadata()
	spec := f.within("spec")
	template, templateMetadata := map[string]any{}, map[string]any{}
	set(templateMetadata, "labels", c.labels(spec))
	set(templateMetadata, "annotations", c.annotations(spec))
	c.template(spec, template)
	c.defaults(f, template)

	className := f.name
	var class map[string]any
	reference := spec.within("providerRef")
	switch {
	case reference.has("name"):
		className = text(reference.take("name"))
		reference.drop("kind", "apiVersion")
	case spec.has("provider"):
		class = c.inlineClass(f, spec.within("provider"))
	default:
		c.report(Missing, f.object, "spec.template.spec.nodeClassRef.name",
			"it has neither provider nor providerRef: "+className+" is taken, which must exist")
	}
	template["nodeClassRef"] = map[string]any{"group": "karpenter.k8s.aws", "kind": nodeClassKind, "name": className}
	template["expireAfter"] = never
	if spec.has("ttlSecondsUntilExpired") {
		template["expireAfter"] = seconds(spec.take("ttlSecondsUntilExpired"))
	}

	out := map[string]any{"template": withMetadata(template, templateMetadata), "disruption": v1alpha5Disruption(spec)}
	set(out, "weight", spec.take("weight"))
	set(out, "limits", spec.within("limits").take("resources"))
	pool := map[string]any{"apiVersion": nodePoolVersion, "kind": "NodePool", "metadata": metadata, "spec": out}
	c.takeKubelet(spec, "kubeletConfiguration", pool, className)
	if class != nil {
		return []map[string]any{pool, class}
	}
	return []map[string]any{pool}
}

// v1alpha5Disruption converts the three cases of v1alpha5: empty nodes are removed after a time, nodes are consolidated, or nodes are not
// disrupted.
func v1alpha5Disruption(spec *fields) map[string]any {
	consolidation := spec.within("consolidation")
	enabled, _ := consolidation.take("enabled").(bool)
	after := spec.take("ttlSecondsAfterEmpty")
	switch {
	case enabled && after == nil:
		return map[string]any{"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
	case after != nil:
		if enabled {
			spec.lost("consolidation.enabled", "together with ttlSecondsAfterEmpty v1alpha5 refused it: the latter is kept")
		}
		return map[string]any{"consolidationPolicy": "WhenEmpty", "consolidateAfter": seconds(after)}
	}
	return map[string]any{"consolidationPolicy": "WhenEmpty", "consolidateAfter": never}
}

// defaults writes out the defaults that v1alpha5 added to every Provisioner and v1 does not add.
func (c *conversion) defaults(f *fields, template map[string]any) {
	requirements, _ := template["requirements"].([]any)
	known := map[string]bool{}
	for _, r := range requirements {
		m, _ := r.(map[string]any)
		known[text(m["key"])] = true
	}
	add := func(key, operator string, values ...any) {
		requirements = append(requirements, map[string]any{"key": key, "operator": operator, "values": values})
		f.assumed("spec.template.spec.requirements", fmt.Sprintf("%s %s %v was v1alpha5's default and is not v1's: written out", key, operator, values))
	}
	if !known["kubernetes.io/os"] && !known["beta.kubernetes.io/os"] {
		add("kubernetes.io/os", "In", "linux")
	}
	if !known["kubernetes.io/arch"] && !known["beta.kubernetes.io/arch"] {
		add("kubernetes.io/arch", "In", "amd64")
	}
	if !known[karpv1.CapacityTypeLabelKey] {
		add(karpv1.CapacityTypeLabelKey, "In", "on-demand")
	}
	types := []string{
		"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", awsv1.LabelInstanceFamily,
		awsv1.LabelInstanceCategory, awsv1.LabelInstanceGeneration,
	}
	if !slices.ContainsFunc(types, func(key string) bool { return known[key] }) {
		add(awsv1.LabelInstanceCategory, "In", "c", "m", "r")
		add(awsv1.LabelInstanceGeneration, "Gt", "2")
	}
	template["requirements"] = requirements
}

// nodePool converts v1beta1's NodePool.
func (c *conversion) nodePool(f *fields) []map[string]any {
	metadata := f.metadata()
	spec := f.within("spec")
	old := spec.within("template")
	oldMetadata, oldSpec := old.within("metadata"), old.within("spec")
	template, templateMetadata := map[string]any{}, map[string]any{}
	set(templateMetadata, "labels", c.labels(oldMetadata))
	set(templateMetadata, "annotations", c.annotations(oldMetadata))
	c.template(oldSpec, template)
	if _, ok := template["requirements"]; !ok {
		template["requirements"] = []any{}
	}

	reference := oldSpec.within("nodeClassRef")
	className, kind := text(reference.take("name")), text(reference.take("kind"))
	group, _, _ := strings.Cut(text(reference.take("apiVersion")), "/")
	if kind == "" {
		kind = nodeClassKind
	}
	if group == "" {
		group = "karpenter.k8s.aws"
	}
	if className == "" {
		c.report(Missing, f.object, "spec.template.spec.nodeClassRef.name", "it names no EC2NodeClass")
	}
	template["nodeClassRef"] = map[string]any{"group": group, "kind": kind, "name": className}
	if oldSpec.has("resources") {
		oldSpec.lost("resources", "it was never read: a node's size follows from its pods")
		oldSpec.drop("resources")
	}

	disruption := spec.within("disruption")
	set(template, "expireAfter", disruption.take("expireAfter"))
	out := map[string]any{"template": withMetadata(template, templateMetadata), "disruption": v1beta1Disruption(disruption)}
	set(out, "weight", spec.take("weight"))
	set(out, "limits", spec.take("limits"))
	pool := map[string]any{"apiVersion": nodePoolVersion, "kind": "NodePool", "metadata": metadata, "spec": out}
	c.takeKubelet(oldSpec, "kubelet", pool, className)
	return []map[string]any{pool}
}

func v1beta1Disruption(old *fields) map[string]any {
	out := map[string]any{}
	policy := text(old.take("consolidationPolicy"))
	switch policy {
	case "", "WhenUnderutilized":
		policy = "WhenEmptyOrUnderutilized"
	}
	out["consolidationPolicy"] = policy
	out["consolidateAfter"] = "0s"
	set(out, "consolidateAfter", old.take("consolidateAfter"))
	set(out, "budgets", old.take("budgets"))
	return out
}

// template takes the fields that both old versions and v1 have in common.
func (c *conversion) template(spec *fields, into map[string]any) {
	set(into, "taints", spec.take("taints"))
	set(into, "startupTaints", spec.take("startupTaints"))
	requirements, ok := spec.values["requirements"].([]any)
	if !ok {
		return
	}
	spec.drop("requirements")
	var kept []any
	for i, r := range requirements {
		m, _ := r.(map[string]any)
		key, field := text(m["key"]), fmt.Sprintf("requirements[%d]", i)
		if renamed := renamedLabel(key); renamed != key {
			m["key"] = renamed
			spec.assumed(spec.at(field), key+" is "+renamed+" in v1")
		} else if strings.HasPrefix(key, "karpenter.k8s.aws/") && !karpv1.WellKnownLabels.Has(key) {
			spec.lost(field, "v1 has no label "+key)
			continue
		}
		kept = append(kept, r)
	}
	set(into, "requirements", kept)
}

func renamedLabel(key string) string {
	if key == "karpenter.sh/provisioner-name" {
		return karpv1.NodePoolLabelKey
	}
	return key
}

// labels takes the labels of nodes.
func (c *conversion) labels(f *fields) any {
	labels, ok := f.values["labels"].(map[string]any)
	if !ok {
		return f.take("labels")
	}
	for key := range labels {
		if renamedLabel(key) != key {
			f.lost("labels."+key, "every node has it as "+karpv1.NodePoolLabelKey)
			delete(labels, key)
		}
	}
	return f.take("labels")
}

// annotations takes the annotations of nodes; two of them have a new name.
func (c *conversion) annotations(f *fields) any {
	annotations, ok := f.values["annotations"].(map[string]any)
	if !ok {
		return f.take("annotations")
	}
	for _, old := range []string{"karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate"} {
		if value, ok := annotations[old]; ok {
			delete(annotations, old)
			annotations[karpv1.DoNotDisruptAnnotationKey] = value
			f.assumed(f.at("annotations"), old+" is "+karpv1.DoNotDisruptAnnotationKey+" in v1")
		}
	}
	return f.take("annotations")
}

func withMetadata(spec, metadata map[string]any) map[string]any {
	out := map[string]any{"spec": spec}
	set(out, "metadata", metadata)
	return out
}

// seconds returns a number of seconds in v1's format of durations. A value that is not a number, such as a placeholder, only gets the unit.
func seconds(value any) string {
	n, ok := value.(json.Number)
	if !ok {
		return fmt.Sprintf("%vs", value)
	}
	s, err := n.Int64()
	switch {
	case err != nil || s == 0 || s%60 != 0:
		return n.String() + "s"
	case s%3600 == 0:
		return fmt.Sprintf("%dh", s/3600)
	}
	return fmt.Sprintf("%dm", s/60)
}

func (c *conversion) takeKubelet(spec *fields, key string, pool map[string]any, class string) {
	settings, ok := spec.values[key].(map[string]any)
	k := kubelet{pool: pool, class: class, object: spec.object, field: spec.at(key)}
	if ok {
		spec.drop(key)
		if settings["containerRuntime"] != nil {
			spec.lost(key+".containerRuntime", "kubelets have containerd, and v1 no choice")
			delete(settings, "containerRuntime")
		}
		k.settings = settings
	}
	c.kubelets = append(c.kubelets, k)
}

// settleKubelets gives each EC2NodeClass the kubelet settings of the NodePools that name it. If these differ, it adds a copy of the class
// for each further setting.
func (c *conversion) settleKubelets() {
	first := map[string]kubelet{}
	copies := map[string][]map[string]any{}
	for _, k := range c.kubelets {
		class, at := c.class(k.class)
		if class == nil {
			if len(k.settings) > 0 {
				c.report(Lost, k.object, k.field, "v1 has it in spec.kubelet of EC2NodeClass "+k.class+", which is not converted here: set it there")
			}
			continue
		}
		other, seen := first[k.class]
		if !seen {
			first[k.class] = k
			set(class["spec"].(map[string]any), "kubelet", k.settings)
			continue
		}
		if len(k.settings) == 0 && len(other.settings) == 0 || reflect.DeepEqual(k.settings, other.settings) {
			continue
		}
		name := c.copyFor(k, copies)
		if name == "" {
			name = k.class + "-" + text(k.pool["metadata"].(map[string]any)["name"])
			made := copyOf(class, name, k.settings)
			copies[k.class] = append(copies[k.class], made)
			c.outputs[at].objects = append(c.outputs[at].objects, made)
			c.report(Assumed, k.object, k.field, "v1 has it in the EC2NodeClass, and NodePools of "+k.class+
				" differ in it: EC2NodeClass "+name+" is a copy with these settings")
		}
		reference(k.pool)["name"] = name
	}
}

// copyFor returns the name of a copy that has these settings already.
func (c *conversion) copyFor(k kubelet, copies map[string][]map[string]any) string {
	for _, made := range copies[k.class] {
		settings, _ := made["spec"].(map[string]any)["kubelet"].(map[string]any)
		if len(settings) == 0 && len(k.settings) == 0 || reflect.DeepEqual(settings, k.settings) {
			return text(made["metadata"].(map[string]any)["name"])
		}
	}
	return ""
}

// class returns a converted EC2NodeClass by name, and the index of its output.
func (c *conversion) class(name string) (map[string]any, int) {
	for i, o := range c.outputs {
		if o.old == nil {
			continue
		}
		for _, object := range o.objects {
			metadata, _ := object["metadata"].(map[string]any)
			if object["kind"] == nodeClassKind && metadata["name"] == name {
				return object, i
			}
		}
	}
	return nil, 0
}

func copyOf(class map[string]any, name string, settings map[string]any) map[string]any {
	out := deepCopy(class).(map[string]any)
	out["metadata"].(map[string]any)["name"] = name
	spec := out["spec"].(map[string]any)
	delete(spec, "kubelet")
	set(spec, "kubelet", settings)
	return out
}

func reference(pool map[string]any) map[string]any {
	template := pool["spec"].(map[string]any)["template"].(map[string]any)
	return template["spec"].(map[string]any)["nodeClassRef"].(map[string]any)
}
