package parity_test

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// machine is a node with its pods, as the judge sees it.
type machine struct {
	node *corev1.Node
	pods []*corev1.Pod
	// attach is how many EBS volumes it takes; negative for no limit.
	attach int64
	// known is what info returns of a machine that does not change any more; nil until then.
	known *framework.NodeInfo
}

func (m machine) info() *framework.NodeInfo {
	if m.known != nil {
		return m.known
	}
	ni := framework.NewNodeInfo(m.pods...)
	ni.SetNode(m.node)
	return ni
}

// view is the cluster that the judge's framework sees: real nodes alone, built anew for each question.
type view struct {
	list   []fwk.NodeInfo
	attach map[string]int64
}

var (
	_ fwk.SharedLister = &view{}
	_ fwk.CSIManager   = &view{}
)

func (v *view) set(machines []machine) {
	v.list, v.attach = nil, map[string]int64{}
	for _, m := range machines {
		v.list = append(v.list, m.info())
		v.attach[m.node.Name] = m.attach
	}
}

func (v *view) NodeInfos() fwk.NodeInfoLister           { return v }
func (v *view) StorageInfos() fwk.StorageInfoLister     { return v }
func (v *view) PodGroupStates() fwk.PodGroupStateLister { return nil }
func (v *view) CSINodes() fwk.CSINodeLister             { return csiNodes{v} }
func (v *view) List() ([]fwk.NodeInfo, error)           { return v.list, nil }

func (v *view) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return slices.DeleteFunc(slices.Clone(v.list), func(n fwk.NodeInfo) bool { return len(n.GetPodsWithAffinity()) == 0 }), nil
}

func (v *view) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return slices.DeleteFunc(slices.Clone(v.list), func(n fwk.NodeInfo) bool { return len(n.GetPodsWithRequiredAntiAffinity()) == 0 }), nil
}

func (v *view) Get(name string) (fwk.NodeInfo, error) {
	for _, n := range v.list {
		if n.Node().Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node %s", name)
}

func (v *view) IsPVCUsedByPods(key string) bool {
	return slices.ContainsFunc(v.list, func(n fwk.NodeInfo) bool { return n.GetPVCRefCounts()[key] > 0 })
}

// csiNodes are those of the EBS driver.
type csiNodes struct{ *view }

func (c csiNodes) List() ([]*storagev1.CSINode, error) { return nil, nil }

func (c csiNodes) Get(name string) (*storagev1.CSINode, error) {
	n, ok := c.attach[name]
	if !ok || n < 0 {
		return nil, fmt.Errorf("no CSINode %s", name)
	}
	count := int32(n)
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
		Name: "ebs.csi.aws.com", NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &count},
	}}}}, nil
}

// refusal asks the scheduler's filters whether the pod may be on the named machine among the others; empty for yes. The
// pod itself is in none of them.
func (l *lab) refusal(ctx context.Context, machines []machine, pod *corev1.Pod, on string) string {
	l.view.set(machines)
	return l.refusalNow(ctx, pod, on)
}

func (l *lab) refusalNow(ctx context.Context, pod *corev1.Pod, on string) string {
	state := framework.NewCycleState()
	result, status, _ := l.judge.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return "PreFilter " + status.Plugin() + ": " + status.Message()
	}
	if !result.AllNodes() && !result.NodeNames.Has(on) {
		return "the pod is pinned to other nodes"
	}
	ni, err := l.view.Get(on)
	if err != nil {
		return err.Error()
	}
	if st := l.judge.RunFilterPlugins(ctx, state, pod, ni); !st.IsSuccess() {
		return st.Plugin() + ": " + st.Message()
	}
	return ""
}

// withoutPod is the machines with the pod taken off.
func withoutPod(machines []machine, pod *corev1.Pod) []machine {
	out := slices.Clone(machines)
	for i := range out {
		at := slices.IndexFunc(out[i].pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
		if at >= 0 {
			out[i].pods, out[i].known = slices.Delete(slices.Clone(out[i].pods), at, at+1), nil
		}
	}
	return out
}
