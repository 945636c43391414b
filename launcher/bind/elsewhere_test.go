package bind_test

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/bind"
)

// where is a term of a volume's node affinity: values of labels by their keys.
type where map[string]string

// volumeAt returns a volume that one of the places is enough for.
func volumeAt(name string, places ...where) *corev1.PersistentVolume {
	out := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if len(places) == 0 {
		return out
	}
	required := &corev1.NodeSelector{}
	for _, place := range places {
		term := corev1.NodeSelectorTerm{}
		for key, value := range place {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
		}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	}
	out.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: required}
	return out
}

// oldVolume is a volume of Kubernetes' own drivers, before they were moved to CSI: its labels name its place, and it has no node affinity.
func oldVolume(key, value string) *corev1.PersistentVolume {
	out := volumeAt("old")
	out.Labels[key] = value
	return out
}

// A volume that is elsewhere refuses the node; one that asks for a label which the node lacks waits.
func TestElsewhere(t *testing.T) {
	const zone, beta, ebs, rack = corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, "topology.ebs.csi.aws.com/zone", "example.com/rack"
	unreadable := volumeAt("v", where{zone: "a"})
	unreadable.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Operator = "Near"
	for name, c := range map[string]struct {
		volumes []*corev1.PersistentVolume
		// labels are further ones of the node, which is in zone a.
		labels map[string]string
		why    string
		label  string
	}{
		"no volume":                             {},
		"of no place":                           {volumes: []*corev1.PersistentVolume{volumeAt("v")}},
		"here":                                  {volumes: []*corev1.PersistentVolume{volumeAt("v", where{zone: "a"})}},
		"elsewhere":                             {volumes: []*corev1.PersistentVolume{volumeAt("v", where{zone: "b"})}, why: "volume v cannot"},
		"one of two":                            {volumes: []*corev1.PersistentVolume{volumeAt("u", where{zone: "a"}), volumeAt("v", where{zone: "b"})}, why: "volume v cannot"},
		"in either":                             {volumes: []*corev1.PersistentVolume{volumeAt("v", where{zone: "b"}, where{zone: "a"})}},
		"cannot be read":                        {volumes: []*corev1.PersistentVolume{unreadable}, why: "volume v cannot"},
		"the zone under the driver's key":       {volumes: []*corev1.PersistentVolume{volumeAt("v", where{ebs: "a"})}},
		"another zone under it":                 {volumes: []*corev1.PersistentVolume{volumeAt("v", where{ebs: "b"})}, why: "volume v cannot"},
		"the driver's word counts":              {volumes: []*corev1.PersistentVolume{volumeAt("v", where{ebs: "a"})}, labels: map[string]string{ebs: "b"}, why: "volume v cannot"},
		"a label that the node lacks":           {volumes: []*corev1.PersistentVolume{volumeAt("v", where{rack: "1"})}, why: "label example.com/rack", label: rack},
		"beside the zone":                       {volumes: []*corev1.PersistentVolume{volumeAt("v", where{rack: "1", zone: "a"})}, why: "label example.com/rack", label: rack},
		"beside another zone":                   {volumes: []*corev1.PersistentVolume{volumeAt("v", where{rack: "1", zone: "b"})}, why: "volume v cannot"},
		"beside a volume elsewhere":             {volumes: []*corev1.PersistentVolume{volumeAt("u", where{rack: "1"}), volumeAt("v", where{zone: "b"})}, why: "volume v cannot"},
		"the label is there":                    {volumes: []*corev1.PersistentVolume{volumeAt("v", where{rack: "1"})}, labels: map[string]string{rack: "1"}},
		"an old one here":                       {volumes: []*corev1.PersistentVolume{oldVolume(beta, "a")}},
		"an old one elsewhere":                  {volumes: []*corev1.PersistentVolume{oldVolume(beta, "b")}, why: "volume old cannot"},
		"an old one in several zones":           {volumes: []*corev1.PersistentVolume{oldVolume(zone, "b__a")}},
		"an old one in several zones, not in a": {volumes: []*corev1.PersistentVolume{oldVolume(zone, "b__c")}, why: "volume old cannot"},
		"an old one in another region":          {volumes: []*corev1.PersistentVolume{oldVolume(corev1.LabelFailureDomainBetaRegion, "s")}, why: "volume old cannot"},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{zone: "a", corev1.LabelTopologyRegion: "r"}}}
			maps.Copy(node.Labels, c.labels)
			why, label := bind.Elsewhere(c.volumes, node)
			if (why == "") != (c.why == "") || !strings.Contains(why, c.why) || label != c.label {
				t.Errorf("%q for label %q, want %q for %q", why, label, c.why, c.label)
			}
			if _, there := node.Labels[beta]; there {
				t.Error("the Node was changed")
			}
		})
	}
}
