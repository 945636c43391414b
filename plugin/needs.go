package plugin

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// needs knows what a pod needs beyond its spec: what its profile and the objects around it add.
type needs struct {
	spreads    *verify.Spreads
	namespaces corelisters.NamespaceLister
}

func newNeeds(profiles []config.KubeSchedulerProfile, f informers.SharedInformerFactory) *needs {
	return &needs{spreads: verify.NewSpreads(profiles, f), namespaces: f.Core().V1().Namespaces().Lister()}
}

// namespaceLabels are the labels of all namespaces, by name.
func (n *needs) namespaceLabels() (map[string]map[string]string, error) {
	list, err := n.namespaces.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	out := make(map[string]map[string]string, len(list))
	for _, ns := range list {
		out[ns.Name] = ns.Labels
	}
	return out, nil
}

// classes groups the pods by identical needs, in the order of their first pod.
func (p *Plugin) classes(entries []entry) []plan.Class {
	var out []plan.Class
	at := map[string]int{}
	only := map[string]string{}
	for _, e := range entries {
		if e.class == "" {
			e.class = plan.ClassKey(e.pod)
		}
		spread, selector := p.needs.spreads.Of(e.pod)
		key := strings.TrimSuffix(e.class+"/"+selector, "/")
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, plan.Class{Key: key, Pod: e.pod, DefaultSpread: spread, Volumes: p.volumes.Of(e.pod)})
		}
		profile := e.pod.Spec.SchedulerName
		if _, ok := only[profile]; !ok {
			only[profile] = p.schedulerOnly(profile)
		}
		ref := refOf(e.pod)
		ref.SchedulerOnly, ref.Adopted = only[profile], p.adoptedPod(ref)
		out[i].Pods = append(out[i].Pods, ref)
	}
	return out
}
