package intern

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
		text(o, &c.Type)
		text(o, &c.Status)
		text(o, &c.Reason)
		text(o, &c.Message)
	}
}

// claim shares what the NodeClaims of one launch have in common.
func (o *Objects) claim(c *karpv1.NodeClaim) {
	c.Labels, c.Annotations = o.all(c.Labels), o.words(c.Annotations)
	c.Spec.Requirements = o.requirementList(c.Spec.Requirements)
	c.Spec.Resources.Requests = o.resourceList(c.Spec.Resources.Requests)
	s := &c.Status
	s.Capacity, s.Allocatable = o.resourceList(s.Capacity), o.resourceList(s.Allocatable)
	s.Conditions = fit(s.Conditions)
	for i := range s.Conditions {
		d := &s.Conditions[i]
		text(o, &d.Type)
		text(o, &d.Status)
		text(o, &d.Reason)
		text(o, &d.Message)
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

// all shares the whole map.
func (o *Objects) all(m map[string]string) map[string]string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		field(&b, k)
		field(&b, m[k])
	}
	return o.labels.share(digest(&b), b.Len(), m)
}

func (o *Objects) resourceList(list corev1.ResourceList) corev1.ResourceList {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		field(&b, string(name))
		field(&b, quantity.String())
	}
	return o.resources.share(digest(&b), b.Len(), list)
}

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
	return o.requirements.share(digest(&b), b.Len(), list)
}

// field writes a text so that no two lists of texts are written alike.
func field(b *strings.Builder, text string) {
	b.WriteString(strconv.Itoa(len(text)))
	b.WriteByte(' ')
	b.WriteString(text)
}

func digest(b *strings.Builder) [sha256.Size]byte { return sha256.Sum256([]byte(b.String())) }
