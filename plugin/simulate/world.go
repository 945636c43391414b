package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
	"github.com/slipway-k8s/slipway/plugin/simulate/apiserver"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// world is the cluster of the input, with the filters over it.
type world struct {
	objects  *input.Objects
	nodes    []*framework.NodeInfo
	byName   map[string]*framework.NodeInfo
	claims   map[string]bool
	verifier *verify.Verifier
	needs    podclass.Needs
	stop     func()
	// pods are those of the input by UID, once they are asked for.
	pods map[string]*corev1.Pod
	// held are the reasons of pods that are not planned.
	held []string
}

// newWorld puts the bound pods on their nodes, with the pods of DaemonSets that are missing there. It builds the filters of the
// scheduler's profiles, and of a profile for each other scheduler that a pod names.
func newWorld(ctx context.Context, objects *input.Objects, scheduler *Scheduler) (*world, error) {
	w := &world{objects: objects, byName: map[string]*framework.NodeInfo{}, claims: map[string]bool{}}
	w.place(klog.FromContext(ctx))
	// The filters need their metrics, though no process scrapes them here.
	metrics.Register()
	profiles, err := scheduler.profilesOf(objects.Pods)
	if err != nil {
		return nil, err
	}
	resources, err := resourcesOf(objects)
	if err != nil {
		return nil, err
	}
	client, err := apiserver.NewClient(resources)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	w.verifier, err = verify.New(ctx, verify.Config{Profiles: profiles, Informers: factory, Client: client, CSI: csi{w}})
	if err != nil {
		return nil, err
	}
	w.needs = podclass.Needs{Volumes: podclass.NewVolumes(factory), Spreads: podclass.NewSpreads(profiles, factory), Affinity: podclass.AddedAffinity(profiles)}
	inner, cancel := context.WithCancel(ctx)
	factory.Start(inner.Done())
	w.stop = func() { cancel(); factory.Shutdown() }
	for kind, synced := range factory.WaitForCacheSync(inner.Done()) {
		if !synced {
			w.stop()
			return nil, fmt.Errorf("the informer of %s has not started", kind)
		}
	}
	return w, nil
}

// resourcesOf returns the objects that the filters' plugins read.
func resourcesOf(o *input.Objects) (map[string]apiserver.Resource, error) {
	core, apps, storage := corev1.SchemeGroupVersion.WithKind, appsv1.SchemeGroupVersion.WithKind, storagev1.SchemeGroupVersion.WithKind
	out := map[string]apiserver.Resource{}
	var errs [10]error
	out["namespaces"], errs[0] = apiserver.NewResource(core("Namespace"), o.Namespaces)
	out["persistentvolumes"], errs[1] = apiserver.NewResource(core("PersistentVolume"), o.PersistentVolumes)
	out["persistentvolumeclaims"], errs[2] = apiserver.NewResource(core("PersistentVolumeClaim"), o.PersistentVolumeClaims)
	out["storageclasses"], errs[3] = apiserver.NewResource(storage("StorageClass"), o.StorageClasses)
	out["csidrivers"], errs[4] = apiserver.NewResource(storage("CSIDriver"), o.CSIDrivers)
	out["csinodes"], errs[5] = apiserver.NewResource(storage("CSINode"), o.CSINodes)
	out["services"], errs[6] = apiserver.NewResource(core("Service"), o.Services)
	out["replicationcontrollers"], errs[7] = apiserver.NewResource(core("ReplicationController"), o.Controllers)
	out["replicasets"], errs[8] = apiserver.NewResource(apps("ReplicaSet"), o.ReplicaSets)
	out["statefulsets"], errs[9] = apiserver.NewResource(apps("StatefulSet"), o.StatefulSets)
	return out, errors.Join(errs[:]...)
}

// place puts the bound pods on their nodes. It adds pods of DaemonSets that a node lacks, since the DaemonSet's controller would
// create them at once.
func (w *world) place(logger klog.Logger) {
	pods := make(map[string][]*corev1.Pod, len(w.objects.Nodes))
	for _, n := range w.objects.Nodes {
		if n.UID == "" {
			// Without a UID the filters would treat the node as one that is about to be launched.
			n.UID = types.UID("node/" + n.Name)
		}
		info := framework.NewNodeInfo()
		info.SetNode(n)
		w.byName[n.Name] = info
		w.nodes = append(w.nodes, info)
	}
	for _, p := range w.objects.Pods {
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && p.Spec.NodeName != "" {
				w.claims[p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName] = true
			}
		}
		if info := w.byName[p.Spec.NodeName]; info != nil {
			add(info, p.Pod)
			pods[p.Spec.NodeName] = append(pods[p.Spec.NodeName], p.Pod)
		}
	}
	for _, info := range w.nodes {
		for _, p := range missingDaemons(logger, info.Node(), pods[info.Node().Name], w.objects.DaemonSets) {
			add(info, p)
		}
	}
	slices.SortFunc(w.nodes, func(a, b *framework.NodeInfo) int { return cmp.Compare(a.Node().Name, b.Node().Name) })
}

// missingDaemons returns the pods of DaemonSets that will run on the node, and that are not among its pods yet.
func missingDaemons(logger klog.Logger, node *corev1.Node, pods []*corev1.Pod, sets []*appsv1.DaemonSet) []*corev1.Pod {
	var out []*corev1.Pod
	for _, ds := range sets {
		runs := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Namespace == ds.Namespace && byController(p, "DaemonSet", ds.Name) })
		if !runs && shouldRun(logger, node, ds) {
			out = append(out, daemonPod(ds, node.Name))
		}
	}
	return out
}

// shouldRun reports whether a pod of the DaemonSet will run on the node. One with an impossible request, or one for more than the node has, never does.
func shouldRun(logger klog.Logger, node *corev1.Node, ds *appsv1.DaemonSet) bool {
	run, _ := daemon.NodeShouldRunDaemonPod(logger, node, ds)
	pod := daemonPod(ds, node.Name)
	return run && plan.InvalidRequest(pod) == "" && !plan.Oversized(plan.PodRequests(pod), node.Status.Allocatable)
}

func daemonPod(ds *appsv1.DaemonSet, node string) *corev1.Pod {
	pod := daemon.NewPod(ds, node)
	pod.Name = ds.Name + "-" + node
	pod.UID = types.UID("daemon/" + ds.Namespace + "/" + pod.Name)
	pod.Spec.NodeName = node
	return pod
}

func add(info *framework.NodeInfo, pod *corev1.Pod) {
	// The error is about affinity terms that cannot be parsed. The pod counts without them, as in the scheduler's cache.
	parsed, _ := framework.NewPodInfo(pod)
	info.AddPodInfo(parsed)
}

// source returns the world as the source of a View in which every node takes pods.
func (w *world) source(cat catalog.State) clusterview.Source {
	return clusterview.Source{
		Snapshot: snapshot{w}, Catalog: cat, DaemonSets: w.objects.DaemonSets, Pod: w.pod,
		Room: func(string) bool { return true },
	}
}

// pod returns a pod of the input.
func (w *world) pod(ref catalog.PodRef) *corev1.Pod {
	if w.pods == nil {
		w.pods = make(map[string]*corev1.Pod, len(w.objects.Pods))
		for _, p := range w.objects.Pods {
			w.pods[string(p.UID)] = p.Pod
		}
	}
	return w.pods[ref.UID]
}

// snapshot is the world as the scheduler's plugins read it, sorted by name.
type snapshot struct{ w *world }

var _ fwk.SharedLister = snapshot{}

// NodeInfos implements fwk.SharedLister.
func (s snapshot) NodeInfos() fwk.NodeInfoLister { return s }

// StorageInfos implements fwk.SharedLister.
func (s snapshot) StorageInfos() fwk.StorageInfoLister { return s }

// PodGroupStates implements fwk.SharedLister.
func (s snapshot) PodGroupStates() fwk.PodGroupStateLister { return noGroups{} }

// List returns all nodes.
func (s snapshot) List() ([]fwk.NodeInfo, error) {
	return s.where(func(*framework.NodeInfo) bool { return true }), nil
}

// HavePodsWithAffinityList implements fwk.NodeInfoLister.
func (s snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return s.where(func(n *framework.NodeInfo) bool { return len(n.PodsWithAffinity) > 0 }), nil
}

// HavePodsWithRequiredAntiAffinityList implements fwk.NodeInfoLister.
func (s snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.where(func(n *framework.NodeInfo) bool { return len(n.PodsWithRequiredAntiAffinity) > 0 }), nil
}

func (s snapshot) where(keep func(*framework.NodeInfo) bool) []fwk.NodeInfo {
	var out []fwk.NodeInfo
	for _, n := range s.w.nodes {
		if keep(n) {
			out = append(out, n)
		}
	}
	return out
}

// Get returns the node of a name.
func (s snapshot) Get(name string) (fwk.NodeInfo, error) {
	if n, ok := s.w.byName[name]; ok {
		return n, nil
	}
	return nil, fmt.Errorf("node %s is not in the input", name)
}

// IsPVCUsedByPods reports whether a bound pod has the claim.
func (s snapshot) IsPVCUsedByPods(key string) bool { return s.w.claims[key] }

type noGroups struct{}

// Get implements fwk.PodGroupStateLister.
func (noGroups) Get(namespace, name string) (fwk.PodGroupState, error) {
	return nil, fmt.Errorf("pod group %s/%s: none is known", namespace, name)
}

// csi returns how many volumes the nodes of the input take.
type csi struct{ w *world }

var _ fwk.CSIManager = csi{}

// CSINodes implements fwk.CSIManager.
func (c csi) CSINodes() fwk.CSINodeLister { return c }

// List returns the CSINodes of the input.
func (c csi) List() ([]*storagev1.CSINode, error) { return c.w.objects.CSINodes, nil }

// Get returns the CSINode of a node.
func (c csi) Get(name string) (*storagev1.CSINode, error) {
	for _, n := range c.w.objects.CSINodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("CSINode %s is not in the input", name)
}
