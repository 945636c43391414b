package sim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/e2e/machines/delay"
	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
)

const (
	nodeNameIndex = "nodeName"
	// defaultWriters limits the concurrent requests: enough to keep two cores busy. Of light machines there are more, and while an API server is
	// busy each request takes longer: none should wait for another for minutes.
	defaultWriters, lightWriters = 16, 64
)

// Config holds the dependencies of simulated machines.
type Config struct {
	// Client reads pods and Nodes for all machines.
	Client kubernetes.Interface
	// NodeClient returns the client of the kubelet of the named node, with the node's own identity.
	NodeClient func(nodeName string) (kubernetes.Interface, error)
	// Cluster is the cluster's name, and Endpoint the API server's URL, that user data must contain; empty means any.
	Cluster, Endpoint string
	// Times are the delays; the zero value means delay.EC2.
	Times delay.Times
	// Seed makes runs repeatable.
	Seed uint64
	// Speed divides every delay; 0 means 1.
	Speed float64
	// Writers is the largest number of concurrent requests of all machines; 0 means 16, or 64 of light machines.
	Writers int
	// Holds delay machines; nil holds none.
	Holds *instance.Holds
	// Light machines share a few goroutines and report less: see the package's documentation.
	Light bool
}

// Sim runs simulated machines. They see nothing of the cluster until Run is called.
type Sim struct {
	config   Config
	factory  informers.SharedInformerFactory
	pods     cache.SharedIndexInformer
	features []string
	slots    slots
	// synced is closed when the informers have synced.
	synced chan struct{}
	// addresses counts the pod addresses given out.
	addresses atomic.Uint32

	// queue has the light machines that have something to do, now or later.
	queue workqueue.TypedDelayingInterface[*light]

	mu       sync.Mutex
	kubelets map[string]*kubelet
	// disks are those of the instances that have booted and are not gone, by ID.
	disks map[string]*disk
}

// New returns simulated machines; nothing starts before Run.
func New(cfg Config) (*Sim, error) {
	if cfg.Client == nil || cfg.NodeClient == nil {
		return nil, errors.New("sim: Client and NodeClient are required")
	}
	if cfg.Times == (delay.Times{}) {
		cfg.Times = delay.EC2()
	}
	if cfg.Writers <= 0 && cfg.Light {
		cfg.Writers = lightWriters
	}
	if cfg.Writers <= 0 {
		cfg.Writers = defaultWriters
	}
	s := &Sim{
		config: cfg, features: declaredFeatures(), slots: make(slots, cfg.Writers),
		synced: make(chan struct{}), kubelets: map[string]*kubelet{}, disks: map[string]*disk{},
	}
	if cfg.Light {
		s.queue = workqueue.NewTypedDelayingQueue[*light]()
	}
	s.factory = informers.NewSharedInformerFactoryWithOptions(cfg.Client, 0, informers.WithTransform(withoutManagedFields))
	s.pods = s.factory.InformerFor(&corev1.Pod{}, boundPodInformer)
	if err := s.pods.AddIndexers(cache.Indexers{nodeNameIndex: byNodeName}); err != nil {
		return nil, fmt.Errorf("indexing pods by node: %w", err)
	}
	_, err := s.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    s.podChanged,
		UpdateFunc: func(_, pod any) { s.podChanged(pod) },
		DeleteFunc: s.podChanged,
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	s.factory.Core().V1().Nodes().Informer()
	return s, nil
}

// boundPodInformer returns an informer without pending pods, which no kubelet may see.
func boundPodInformer(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, cache.Indexers{},
		func(o *metav1.ListOptions) { o.FieldSelector = bound })
}

func byNodeName(object any) ([]string, error) {
	if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

func withoutManagedFields(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return object, nil
}

// podChanged wakes the kubelet of the pod's node.
func (s *Sim) podChanged(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	s.mu.Lock()
	k := s.kubelets[pod.Spec.NodeName]
	s.mu.Unlock()
	if k != nil {
		k.wake()
	}
}

// gone reports that the watch has seen the pod's removal, or another pod of its name.
func (s *Sim) gone(pod *corev1.Pod) bool {
	object, exists, err := s.pods.GetIndexer().GetByKey(pod.Namespace + "/" + pod.Name)
	live, ok := object.(*corev1.Pod)
	return err == nil && (!exists || ok && live.UID != pod.UID)
}

// Run delivers the cluster's changes to the machines until ctx ends.
func (s *Sim) Run(ctx context.Context) error {
	if s.queue != nil {
		defer s.queue.ShutDown()
	}
	s.factory.StartWithContext(ctx)
	defer s.factory.Shutdown()
	for kind, ok := range s.factory.WaitForCacheSync(ctx.Done()) {
		if !ok && ctx.Err() == nil {
			return fmt.Errorf("syncing the cache of %v: the context ended first", kind)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	close(s.synced)
	if s.queue != nil {
		s.work(ctx)
	}
	<-ctx.Done()
	return nil
}

// Machine runs one machine: boot, kubelet, pods. It returns nil when ctx ends, which means that the instance has stopped; a light machine
// runs until then as well, and Machine returns at once. It returns an error if the machine cannot join; no kubelet runs then.
func (s *Sim) Machine(ctx context.Context, m instance.Instance) error {
	k, started, err := s.kubelet(ctx, m)
	if err != nil {
		return fmt.Errorf("booting instance %s: %w", m.ID, err)
	}
	context.AfterFunc(ctx, func() { k.planner.disk.cut(time.Now()) })
	if s.config.Light {
		s.addLight(ctx, k, started)
		return nil
	}
	sleep(ctx, time.Until(started))
	s.config.Holds.Wait(ctx, k.pool())
	select {
	case <-s.synced:
	case <-ctx.Done():
		return nil
	}
	woken := make(chan struct{}, 1)
	k.wake = func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	s.add(k)
	defer s.remove(k)
	k.log.V(2).Info("The kubelet starts", "networkReadyIn", k.network)
	k.run(ctx, woken)
	return nil
}

// kubelet returns the kubelet of a machine and when it starts.
func (s *Sim) kubelet(ctx context.Context, m instance.Instance) (k *kubelet, started time.Time, err error) {
	source := delay.Source{Seed: s.config.Seed, Machine: m.ID, Speed: s.config.Speed}
	times := s.config.Times
	if m.NodeGroup != "" {
		times = times.Immediate()
	}
	h, err := s.host(m)
	if err != nil {
		return nil, time.Time{}, err
	}
	client, err := s.config.NodeClient(m.PrivateDNSName)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("making the client of node %s: %w", m.PrivateDNSName, err)
	}
	log := klog.FromContext(ctx).WithValues("node", klog.KRef("", m.PrivateDNSName), "instanceID", m.ID)
	network, boot := source.Draw(times.Network, "network"), source.Draw(times.Kubelet, "kubelet")
	switch again := strconv.Itoa(m.Starts); {
	case m.Starts > 0 && m.Hibernated:
		network, boot = source.Draw(times.NetworkResumed, "network", again), source.Draw(times.Resume, "kubelet", again)
	case m.Starts > 0:
		network, boot = source.Draw(times.NetworkAgain, "network", again), source.Draw(times.Restart, "kubelet", again)
	}
	started = later(m.Launched.Add(boot), time.Now())
	k = &kubelet{
		host: h, client: client, network: network, light: s.config.Light,
		nodes: s.factory.Core().V1().Nodes().Lister(), pods: s.pods.GetIndexer(),
		slots: s.slots, log: log, address: s.address,
		writer: newWriter(client, s.slots, log, s.gone),
		known:  map[types.UID]*podState{},
		planner: planner{
			times: times, source: source, disk: s.diskOf(m.ID),
			networkReady: started.Add(network),
		},
	}
	k.admit = k.newAdmission()
	return k, started, nil
}

// add lets changes of the node's pods wake the kubelet.
func (s *Sim) add(k *kubelet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kubelets[k.name()] = k
}

// remove undoes add, unless another kubelet has the node's name now.
func (s *Sim) remove(k *kubelet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kubelets[k.name()] == k {
		delete(s.kubelets, k.name())
	}
}

// host reads the machine's user data, as its boot agent does.
func (s *Sim) host(m instance.Instance) (host, error) {
	h := host{instance: m, features: s.features, prefetches: prefetches(m.UserData)}
	if m.NodeGroup != "" {
		h.config = managedConfig(m)
	} else {
		var err error
		if h.config, err = userdata.Parse(m.UserData); err != nil {
			return host{}, err
		}
		if s.config.Cluster != "" && h.config.Cluster != s.config.Cluster {
			return host{}, fmt.Errorf("checking user data: cluster %q, this one is %q", h.config.Cluster, s.config.Cluster)
		}
		if s.config.Endpoint != "" && h.config.Endpoint != s.config.Endpoint {
			return host{}, fmt.Errorf("checking user data: API server %q, this one is %q", h.config.Endpoint, s.config.Endpoint)
		}
	}
	var err error
	h.size, err = sizeOf(m, h.config)
	return h, err
}

// managedConfig returns the kubelet configuration in EKS's own user data of a managed node group.
func managedConfig(m instance.Instance) userdata.Config {
	capacity := "ON_DEMAND"
	if m.Spot {
		capacity = "SPOT"
	}
	return userdata.Config{Labels: map[string]string{
		"eks.amazonaws.com/nodegroup":       m.NodeGroup,
		"eks.amazonaws.com/nodegroup-image": m.ImageID,
		"eks.amazonaws.com/capacityType":    capacity,
	}}
}

// diskOf returns the disk of an instance, which is empty at its first boot.
func (s *Sim) diskOf(instance string) *disk {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disks[instance] == nil {
		s.disks[instance] = newDisk()
	}
	return s.disks[instance]
}

// Discard forgets the disk of a machine.
func (s *Sim) Discard(m instance.Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.disks, m.ID)
}

// address returns the number of a new pod address.
func (s *Sim) address() uint32 { return s.addresses.Add(1) }

// podAddress returns the n-th pod address in the IP family of the host: of the range that EKS users add to their VPC for pods, or of an IPv6 prefix.
func podAddress(host string, n uint32) string {
	n &= 1<<22 - 1
	last := [4]byte{100, 64 + byte(n>>16), byte(n >> 8), byte(n)}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		octets := ip.As16()
		// The second /80 of the host's subnet.
		octets[8], octets[9] = 0, 1
		copy(octets[12:], last[:])
		return netip.AddrFrom16(octets).String()
	}
	return netip.AddrFrom4(last).String()
}
