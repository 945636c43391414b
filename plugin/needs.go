package plugin

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
)

// needs knows what a pod needs beyond its spec: what its profile and the objects around it add.
type needs struct {
	podclass.Needs
	namespaces corelisters.NamespaceLister
	// daemonSets as admission completes them. Set by Plugin.watch.
	daemonSets *daemonSets
}

func newNeeds(profiles []config.KubeSchedulerProfile, f informers.SharedInformerFactory) *needs {
	return &needs{
		Needs:      podclass.Needs{Spreads: podclass.NewSpreads(profiles, f), Volumes: podclass.NewVolumes(f)},
		namespaces: f.Core().V1().Namespaces().Lister(),
	}
}

// namespaceLabels are the labels of all namespaces, by name.
func (n *needs) namespaceLabels() (map[string]map[string]string, error) {
	list, err := n.namespaces.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	out := make(map[string]map[string]string, len(list))
	for _, ns := range list {
		out[ns.Name] = ns.Labels
	}
	return out, nil
}

// request asks for nodes for the pods of the classes, as if they were on none, with what informers show.
func (n *needs) request(classes []plan.Class, cat catalog.State) (provision.Request, error) {
	daemonSets, err := n.daemonSets.list(klog.Background(), time.Now())
	if err != nil {
		return provision.Request{}, err
	}
	namespaces, err := n.namespaceLabels()
	if err != nil {
		return provision.Request{}, err
	}
	leave := map[types.UID]bool{}
	for i := range classes {
		for _, ref := range classes[i].Pods {
			leave[types.UID(ref.UID)] = true
		}
	}
	return provision.Request{
		Classes: classes, Namespaces: namespaces,
		Cluster:  clusterview.Source{Catalog: cat, DaemonSets: daemonSets, Leave: leave},
		NewNames: func() func(string) string { return newNames(cat) },
	}, nil
}

// classes groups the pods by identical needs, in the order of their first pod.
func (p *Plugin) classes(entries []intake.Entry) []plan.Class {
	classes := podclass.New(p.needs.Needs)
	only := map[string]string{}
	for _, e := range entries {
		profile := e.Pod.Spec.SchedulerName
		if _, ok := only[profile]; !ok {
			only[profile] = p.schedulerOnly(profile)
		}
		ref := catalog.PodRefOf(e.Pod)
		ref.SchedulerOnly, ref.Adopted = only[profile], p.adoptedPod(ref)
		classes.Add(classes.Of(e.Pod, e.Class), ref)
	}
	return classes.List()
}
