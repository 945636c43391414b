package parity_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
)

// outcome is a case, planned.
type outcome struct {
	c        *cluster
	in       plan.Input
	plan     plan.Plan
	rounds   int
	rejected []plan.Rejection
	state    catalog.State
	// pending pods by UID, as the scheduler knows them.
	pending map[string]*corev1.Pod
	// cost of the plan with its filters, of a case with hostile pods.
	cost cost
	// daemonRuns are the answers of runs.
	daemonRuns map[string]bool
}

// solve plans the case as plugin and simulate do.
func (l *lab) solve(ctx context.Context, c *cluster) (*outcome, error) {
	o := &outcome{c: c, pending: map[string]*corev1.Pod{}, daemonRuns: map[string]bool{}}
	var err error
	if o.state, err = c.state(); err != nil {
		return nil, err
	}
	namespaces := map[string]map[string]string{}
	for _, ns := range c.namespaces {
		namespaces[ns.Name] = ns.Labels
	}
	classes := podclass.New(podclass.Needs{Volumes: l.volumes})
	for _, p := range c.pending() {
		o.pending[string(p.UID)] = p
		classes.Add(classes.Of(p, ""), catalog.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
	}
	l.csi.view = o.existing()
	provisioner, err := provision.New(provision.Config{Verifier: l.verifier, Settings: provision.Settings{PreferenceShare: c.preferenceShare}})
	if err != nil {
		return nil, err
	}
	r, err := provisioner.Provision(ctx, provision.Request{
		Now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), Classes: classes.List(), Namespaces: namespaces,
		Cluster: clusterview.Source{
			Snapshot: internalcache.NewSnapshot(c.bound(), c.nodes), Catalog: o.state, DaemonSets: c.daemonSets,
			Pod: func(catalog.PodRef) *corev1.Pod { return nil }, Room: func(string) bool { return true },
			Volumes: l.volumes, CSINodes: o.existing().CSINodes(),
		},
	})
	o.in, o.plan, o.rounds, o.rejected = r.Input, r.Plan, r.Rounds, r.Rejected
	return o, err
}

func (o *outcome) members(list []plan.Member) []*corev1.Pod {
	var out []*corev1.Pod
	for _, m := range list {
		for _, ref := range m.Pods {
			out = append(out, o.pending[ref.UID])
		}
	}
	return out
}

// pool and shape of a claim.
func (o *outcome) instance(c *plan.Claim, name string) (catalog.NodePool, catalog.InstanceType) {
	pool := o.state.NodePools[c.NodePool]
	for _, t := range o.state.InstanceTypes[pool.NodeClass] {
		if t.Name == name {
			return pool, t
		}
	}
	return pool, catalog.InstanceType{}
}

// launched is the claim's node as the launcher would make it in the offering.
func (o *outcome) launched(c *plan.Claim, of plan.Offer) (machine, error) {
	pool, it := o.instance(c, of.InstanceType)
	at := slices.IndexFunc(it.Offerings, func(x catalog.Offering) bool { return x.Zone == of.Zone && x.CapacityType == of.CapacityType })
	if at < 0 {
		return machine{}, fmt.Errorf("claim %s: pool %s has no offering %+v", c.Name, c.NodePool, of)
	}
	labels := nodeLabels(pool, it, it.Offerings[at])
	for _, r := range c.Requirements {
		if _, ok := labels[r.Key]; !ok && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	return o.machine(c.Name, pool, it, labels), nil
}

// machine is an empty node with its daemon pods.
func (o *outcome) machine(name string, pool catalog.NodePool, it catalog.InstanceType, labels map[string]string) machine {
	m := machine{node: newNode(name, labels, pool.Taints, it), attach: attachments(it)}
	m.pods = o.daemonsOn(m.node)
	return m
}

// daemonsOn are the daemon pods that the node will have: those with requests that no node can meet never run.
func (o *outcome) daemonsOn(n *corev1.Node) []*corev1.Pod {
	var out []*corev1.Pod
	for _, ds := range o.c.daemonSets {
		if len(impossibleAsks(&ds.Spec.Template.Spec)) > 0 {
			continue
		}
		if o.runs(ds, n) {
			p := daemon.NewPod(ds, n.Name)
			p.Name, p.UID, p.Spec.NodeName = ds.Name+"-"+n.Name, ds.UID+"/"+n.UID, n.Name
			out = append(out, p)
		}
	}
	return out
}

// runs says whether the DaemonSet has a pod on nodes like this one. To ask takes long of hostile ones.
func (o *outcome) runs(ds *appsv1.DaemonSet, n *corev1.Node) bool {
	labels := maps.Clone(n.Labels)
	delete(labels, corev1.LabelHostname)
	key := fmt.Sprint(ds.UID, labels, n.Spec.Taints)
	run, known := o.daemonRuns[key]
	if !known {
		run, _ = daemon.NodeShouldRunDaemonPod(klog.Background(), n, ds)
		o.daemonRuns[key] = run
	}
	return run
}

// final is the cluster once the plan has come true.
func (o *outcome) final() ([]machine, error) {
	var out []machine
	bound := o.c.bound()
	for _, n := range o.c.nodes {
		m := machine{node: n, attach: o.attachmentsOf(n)}
		if starting(n) {
			m.pods = o.daemonsOn(n)
		}
		for _, p := range bound {
			if p.Spec.NodeName == n.Name {
				m.pods = append(m.pods, p)
			}
		}
		for _, pl := range o.plan.Placements {
			if pl.Node == n.Name {
				m.pods = append(m.pods, o.members(pl.Members)...)
			}
		}
		out = append(out, m)
	}
	for i := range o.plan.Claims {
		c := &o.plan.Claims[i]
		m, err := o.launched(c, c.Expected)
		if err != nil {
			return nil, err
		}
		m.pods = append(m.pods, o.members(c.Members)...)
		out = append(out, m)
	}
	for i := range out {
		out[i].known = out[i].info()
	}
	return out, nil
}

// attachments is how many EBS volumes a node of the type takes.
func attachments(it catalog.InstanceType) int64 {
	if it.VolumeAttachments > 0 {
		return it.VolumeAttachments
	}
	return -1
}

// existing are the nodes that exist, as far as CSI is concerned.
func (o *outcome) existing() *view {
	v := &view{attach: map[string]int64{}}
	for _, n := range o.c.nodes {
		v.attach[n.Name] = o.attachmentsOf(n)
	}
	return v
}

func (o *outcome) attachmentsOf(n *corev1.Node) int64 {
	for _, it := range o.state.InstanceTypes[class] {
		if it.Name == n.Labels[corev1.LabelInstanceTypeStable] {
			return attachments(it)
		}
	}
	return -1
}
