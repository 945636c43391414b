package bind

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// zoneSeparator is between the zones of a volume in its label (k8s.io/cloud-provider, volume/constants.go, LabelMultiZoneDelimiter).
const zoneSeparator = "__"

// Elsewhere returns why a pod on the node could not use one of its PersistentVolumes, because of where that is; "" if it could use all. It looks at what
// kube-scheduler looks at (pkg/scheduler/framework/plugins: volumebinding, volumezone). A volume is often created for a node while another one boots. label is
// set if the node lacks that label alone: a node gets the labels of a CSI driver when the driver registers.
func Elsewhere(volumes []*corev1.PersistentVolume, node *corev1.Node) (why, label string) {
	if len(volumes) == 0 {
		return "", ""
	}
	have := withAliases(node.Labels)
	for _, pv := range volumes {
		switch missing, ok := reachable(pv, have); {
		case ok:
		case missing == "":
			return fmt.Sprintf("its volume %s cannot be used on node %s, which is elsewhere", pv.Name, node.Name), ""
		default:
			why, label = fmt.Sprintf("its volume %s asks for the label %s, which node %s does not have", pv.Name, missing, node.Name), missing
		}
	}
	return why, label
}

// withAliases returns a copy of a node's labels with the other keys of its zone and region, whether or not the node has them yet.
func withAliases(labels map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		for _, alias := range catalog.Aliases(key) {
			if value, ok := labels[key]; ok {
				out[alias] = value
			}
		}
	}
	maps.Copy(out, labels)
	return out
}

// reachable reports whether a node with the labels can use a volume. If it cannot, missing is a label with which it could; "" if there is none.
func reachable(pv *corev1.PersistentVolume, labels map[string]string) (missing string, ok bool) {
	for _, key := range []string{
		corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion,
	} {
		if places, has := pv.Labels[key]; has && !slices.Contains(strings.Split(places, zoneSeparator), labels[key]) {
			return "", false
		}
	}
	if volume.CheckNodeAffinity(pv, labels) == nil {
		return "", true
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		filled, key := maps.Clone(labels), ""
		for _, r := range term.MatchExpressions {
			if _, has := labels[r.Key]; !has && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0 {
				filled[r.Key], key = r.Values[0], r.Key
			}
		}
		if key != "" && volume.CheckNodeAffinity(pv, filled) == nil {
			return key, false
		}
	}
	return "", false
}
