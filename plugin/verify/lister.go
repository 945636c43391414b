package verify

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// swappable is the lister that the frameworks' plugins keep. Each check exchanges its target.
type swappable struct {
	target fwk.SharedLister
}

var _ fwk.SharedLister = &swappable{}

func (s *swappable) NodeInfos() fwk.NodeInfoLister           { return s }
func (s *swappable) StorageInfos() fwk.StorageInfoLister     { return s }
func (s *swappable) PodGroupStates() fwk.PodGroupStateLister { return s.target.PodGroupStates() }

func (s *swappable) List() ([]fwk.NodeInfo, error) { return s.target.NodeInfos().List() }
func (s *swappable) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return s.target.NodeInfos().HavePodsWithAffinityList()
}

func (s *swappable) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.target.NodeInfos().HavePodsWithRequiredAntiAffinityList()
}
func (s *swappable) Get(name string) (fwk.NodeInfo, error) { return s.target.NodeInfos().Get(name) }
func (s *swappable) IsPVCUsedByPods(key string) bool {
	return s.target.StorageInfos().IsPVCUsedByPods(key)
}

// attachable returns how many EBS volumes a node that does not exist yet can attach; 0 if that is unknown.
func (s *swappable) attachable(name string) int64 {
	if o, ok := s.target.(*overlay); ok {
		return o.attach[name]
	}
	return 0
}

// overlay lists the nodes of the cluster, with copies in place of those that get planned pods, and virtual nodes.
type overlay struct {
	storage   fwk.StorageInfoLister
	podGroups fwk.PodGroupStateLister
	byName    map[string]fwk.NodeInfo
	list      []fwk.NodeInfo
	affinity  []fwk.NodeInfo
	anti      []fwk.NodeInfo
	// attach is the number of EBS volumes that each node that does not exist yet can attach, by name.
	attach map[string]int64
}

var _ fwk.SharedLister = &overlay{}

func newOverlay(base fwk.SharedLister, nodes []*framework.NodeInfo) *overlay {
	o := &overlay{
		storage: base.StorageInfos(), podGroups: base.PodGroupStates(),
		byName: make(map[string]fwk.NodeInfo, len(nodes)), list: make([]fwk.NodeInfo, 0, len(nodes)),
	}
	for _, n := range nodes {
		o.byName[n.Node().Name] = n
		o.list = append(o.list, n)
		if len(n.PodsWithAffinity) > 0 {
			o.affinity = append(o.affinity, n)
		}
		if len(n.PodsWithRequiredAntiAffinity) > 0 {
			o.anti = append(o.anti, n)
		}
	}
	return o
}

func (o *overlay) NodeInfos() fwk.NodeInfoLister                     { return o }
func (o *overlay) StorageInfos() fwk.StorageInfoLister               { return o.storage }
func (o *overlay) PodGroupStates() fwk.PodGroupStateLister           { return o.podGroups }
func (o *overlay) List() ([]fwk.NodeInfo, error)                     { return o.list, nil }
func (o *overlay) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return o.affinity, nil }
func (o *overlay) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return o.anti, nil
}

func (o *overlay) Get(name string) (fwk.NodeInfo, error) {
	if n, ok := o.byName[name]; ok {
		return n, nil
	}
	return nil, fmt.Errorf("node %s is neither in the snapshot nor in the plan", name)
}
