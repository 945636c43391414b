package intern

import (
	"crypto/sha256"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// node shares what the Nodes of one image and one instance type have in common: the kubelet lists up to 50 container images
// (nodeStatusMaxImages of KubeletConfiguration).
func (o *Objects) node(n *corev1.Node) {
	n.Labels, n.Annotations = o.words(n.Labels), o.words(n.Annotations)
	s := &n.Status
	s.Capacity, s.Allocatable = o.resourceList(s.Capacity), o.resourceList(s.Allocatable)
	s.Images, s.Conditions = fit(s.Images), fit(s.Conditions)
	for i := range s.Images {
		s.Images[i].Names = fit(s.Images[i].Names)
		for j := range s.Images[i].Names {
			text(o, &s.Images[i].Names[j])
		}
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		condition(o, &c.Type, &c.Status, &c.Reason, &c.Message)
	}
}

// claim shares what the NodeClaims of one launch have in common.
func (o *Objects) claim(c *karpv1.NodeClaim) {
	c.Labels, c.Annotations = o.labels(c.Labels), o.words(c.Annotations)
	c.Spec.Requirements = o.requirementList(c.Spec.Requirements)
	c.Spec.Resources.Requests = o.resourceList(c.Spec.Resources.Requests)
	s := &c.Status
	s.Capacity, s.Allocatable = o.resourceList(s.Capacity), o.resourceList(s.Allocatable)
	s.Conditions = fit(s.Conditions)
	for i := range s.Conditions {
		d := &s.Conditions[i]
		condition(o, &d.Type, &d.Status, &d.Reason, &d.Message)
	}
}

// words returns the map with shared keys and values, for maps of which no two are equal.
func (o *Objects) words(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		text(o, &k)
		text(o, &v)
		out[k] = v
	}
	return out
}

// labels shares the whole map, which the NodeClaims of a launch have alike.
func (o *Objects) labels(m map[string]string) map[string]string {
	common := metav1.ObjectMeta{Labels: m}
	o.identity(&common)
	return common.Labels
}

func (o *Objects) resourceList(list corev1.ResourceList) corev1.ResourceList {
	key, size, ok := o.key(&corev1.ResourceRequirements{Requests: list})
	if !ok {
		return list
	}
	return o.resources.share(key, size, list)
}

// requirementList has a digest of its own: a requirement of Karpenter's has no protobuf.
func (o *Objects) requirementList(list []karpv1.NodeSelectorRequirementWithMinValues) []karpv1.NodeSelectorRequirementWithMinValues {
	var b strings.Builder
	for _, r := range list {
		field(&b, r.Key)
		field(&b, string(r.Operator))
		field(&b, strconv.Itoa(len(r.Values)))
		for _, v := range r.Values {
			field(&b, v)
		}
		if r.MinValues == nil {
			field(&b, "")
		} else {
			field(&b, strconv.Itoa(*r.MinValues))
		}
	}
	return o.requirements.share(sha256.Sum256([]byte(b.String())), b.Len(), list)
}

// field writes a text so that no two lists of texts are written alike.
func field(b *strings.Builder, text string) {
	b.WriteString(strconv.Itoa(len(text)))
	b.WriteByte(' ')
	b.WriteString(text)
}
