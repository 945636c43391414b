package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
)

// needs are what pods need: their specs, and what their profiles and the objects around them add. It is safe for concurrent use.
type needs struct {
	podclass.Needs
	objects  *objects
	profiles *profiles
}

// request returns a request for nodes for the pods, as if they were on none, with what informers show, the catalog and the nodes of the snapshot.
func (n *needs) request(entries []intake.Entry, cat catalog.State, nodes *snapshot) (provision.Request, error) {
	selected, err := n.selected(entries, cat, nodes)
	if err != nil {
		return provision.Request{}, err
	}
	classes := n.classes(entries, selected)
	daemonSets, err := n.objects.daemonSets.list(klog.Background(), time.Now())
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
		Classes: classes, Namespaces: namespaces, Finished: n.finished(entries),
		Cluster:  clusterview.Source{Snapshot: nodes.Snapshot, Catalog: cat, DaemonSets: daemonSets, Leave: leave, Pod: n.objects.pod},
		NewNames: func() func(string) string { return newNames(cat) },
	}, nil
}

// finished returns how many pods of the entries' gangs have had their node and are not replaced, by the gang's name.
func (n *needs) finished(entries []intake.Entry) map[string]int {
	out := map[string]int{}
	for _, e := range entries {
		gang := plan.GangOf(e.Pod).Name
		if _, known := out[gang]; gang != "" && !known {
			out[gang] = n.objects.owners.Finished(n.objects.owners.PodsOfGang(gang))
		}
	}
	return out
}

// namespaceLabels returns the labels of all namespaces, by name.
func (n *needs) namespaceLabels() (map[string]map[string]string, error) {
	list, err := n.objects.namespaces.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	out := make(map[string]map[string]string, len(list))
	for _, ns := range list {
		out[ns.Name] = ns.Labels
	}
	return out, nil
}

// selected returns by which labels selectors distinguish pods of one set: selectors of the entries, and of pods on nodes or on their way to one,
// whose required anti-affinity counts. It is nil if no entry has such a label.
func (n *needs) selected(entries []intake.Entry, cat catalog.State, nodes *snapshot) (*plan.Selected, error) {
	if !slices.ContainsFunc(entries, func(e intake.Entry) bool { return plan.Numbered(e.Pod) }) {
		return nil, nil
	}
	out := &plan.Selected{}
	for _, e := range entries {
		out.Add(e.Pod)
	}
	repelling, err := nodes.NodeInfos().HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		return nil, fmt.Errorf("listing nodes whose pods have required anti-affinity: %w", err)
	}
	for _, info := range repelling {
		for _, p := range info.GetPodsWithRequiredAntiAffinity() {
			out.AddRepelled(p.GetPod())
		}
	}
	for _, node := range cat.InFlight {
		for _, ref := range node.Pods {
			if pod := n.objects.pod(ref); pod != nil {
				out.AddRepelled(pod)
			}
		}
	}
	return out, nil
}

// classes groups the pods by identical needs, in the order of their first pod.
func (n *needs) classes(entries []intake.Entry, selected *plan.Selected) []plan.Class {
	of := n.Needs
	of.Selected = selected
	classes := podclass.New(of)
	only := map[string]string{}
	for _, e := range entries {
		profile := e.Pod.Spec.SchedulerName
		if _, ok := only[profile]; !ok {
			only[profile] = n.profiles.schedulerOnly(profile)
		}
		ref := catalog.PodRefOf(e.Pod)
		ref.SchedulerOnly, ref.Adopted = cmp.Or(only[profile], n.profiles.gathering(e.Pod), grouped(e.Pod), n.profiles.extended(e.Pod)), n.adopted(ref)
		classes.Add(classes.Of(e.Pod, e.Class), ref)
	}
	return classes.List()
}

// adopted reports whether the pod, which may be planned as one of ours, is another scheduler's.
func (n *needs) adopted(ref catalog.PodRef) bool {
	if len(n.profiles.adopted) == 0 {
		return false
	}
	pod := n.objects.pod(ref)
	return pod != nil && n.profiles.adopts(pod.Spec.SchedulerName)
}
