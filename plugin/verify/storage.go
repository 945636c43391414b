package verify

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
)

const (
	// ebsVolumes is how many EBS volumes a node without a CSINode is assumed to attach if the catalog has no limit for it. Nitro
	// instances share 28 slots with network interfaces and instance store ("Amazon EBS volume limits for Amazon EC2 instances").
	ebsVolumes = 24
)

// attachLimits gives virtual nodes a CSINode: without one, NodeVolumeLimits accepts any number of volumes.
type attachLimits struct {
	live  fwk.CSIManager
	nodes *swappable
}

var _ fwk.CSIManager = attachLimits{}

func (a attachLimits) CSINodes() fwk.CSINodeLister { return a }

// List returns the CSINodes that exist.
func (a attachLimits) List() ([]*storagev1.CSINode, error) {
	if a.live == nil {
		return nil, nil
	}
	return a.live.CSINodes().List()
}

// Get returns the node's CSINode, or an assumed one for a node that does not exist yet.
func (a attachLimits) Get(name string) (*storagev1.CSINode, error) {
	if a.live != nil {
		if n, err := a.live.CSINodes().Get(name); err == nil {
			return n, nil
		}
	}
	info, err := a.nodes.Get(name)
	if err != nil {
		return nil, err
	}
	if info.Node().UID != "" {
		return nil, fmt.Errorf("node %s has no CSINode", name)
	}
	count := int32(ebsVolumes)
	if n := a.nodes.attachable(name); n > 0 {
		count = int32(n)
	}
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: podclass.EBSDriver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &count},
		}}},
	}, nil
}

// emptyLister is a cluster without nodes.
type emptyLister struct{}

var _ fwk.SharedLister = emptyLister{}

func (emptyLister) NodeInfos() fwk.NodeInfoLister                     { return emptyLister{} }
func (emptyLister) StorageInfos() fwk.StorageInfoLister               { return emptyLister{} }
func (emptyLister) PodGroupStates() fwk.PodGroupStateLister           { return noGroups{} }
func (emptyLister) List() ([]fwk.NodeInfo, error)                     { return nil, nil }
func (emptyLister) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return nil, nil }
func (emptyLister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}
func (emptyLister) IsPVCUsedByPods(string) bool { return false }
func (emptyLister) Get(name string) (fwk.NodeInfo, error) {
	return nil, fmt.Errorf("node %s: the cluster has none", name)
}

type noGroups struct{}

func (noGroups) Get(namespace, name string) (fwk.PodGroupState, error) {
	return nil, fmt.Errorf("pod group %s/%s: none is known", namespace, name)
}
