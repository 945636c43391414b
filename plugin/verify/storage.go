package verify

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	storageinformers "k8s.io/client-go/informers/storage"
	storagev1informers "k8s.io/client-go/informers/storage/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
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
	if !virtual(info.Node()) {
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

// virtual reports whether the node does not exist yet.
func virtual(node *corev1.Node) bool { return node.UID == "" }

// storageCapacity is whether the filters look at CSIStorageCapacity objects. They do not for a node that does not exist yet: drivers of
// local volumes publish one for each node, once it runs the driver. VolumeBinding would reject every node of a plan.
type storageCapacity struct {
	// unknown means that the node that the filters are asked about has published nothing yet.
	unknown bool
}

// capacityInformers are the scheduler's informers. Their CSIDrivers track no capacity while it is unknown.
type capacityInformers struct {
	informers.SharedInformerFactory
	capacity *storageCapacity
}

// Storage returns the informers of the group storage.k8s.io.
func (f capacityInformers) Storage() storageinformers.Interface {
	return capacityGroup{f.SharedInformerFactory.Storage(), f.capacity}
}

type capacityGroup struct {
	storageinformers.Interface
	capacity *storageCapacity
}

// V1 returns the informers of the group's version v1.
func (g capacityGroup) V1() storagev1informers.Interface {
	return capacityVersion{g.Interface.V1(), g.capacity}
}

type capacityVersion struct {
	storagev1informers.Interface
	capacity *storageCapacity
}

// CSIDrivers returns the informer of CSIDrivers.
func (v capacityVersion) CSIDrivers() storagev1informers.CSIDriverInformer {
	return capacityDrivers{v.Interface.CSIDrivers(), v.capacity}
}

type capacityDrivers struct {
	storagev1informers.CSIDriverInformer
	capacity *storageCapacity
}

// Lister returns the lister that plugins keep.
func (d capacityDrivers) Lister() storagelisters.CSIDriverLister {
	return capacityLister{d.CSIDriverInformer.Lister(), d.capacity}
}

type capacityLister struct {
	storagelisters.CSIDriverLister
	capacity *storageCapacity
}

// Get returns the driver, which does not track capacity while that is unknown.
func (l capacityLister) Get(name string) (*storagev1.CSIDriver, error) {
	driver, err := l.CSIDriverLister.Get(name)
	if err != nil || !l.capacity.unknown || driver.Spec.StorageCapacity == nil {
		return driver, err
	}
	out := *driver
	out.Spec.StorageCapacity = nil
	return &out, nil
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
