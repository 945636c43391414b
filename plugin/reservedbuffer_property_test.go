package plugin

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// crowd is a fleet with the room of two reserved buffers, and the filters that pods have to pass: NodeResourcesFit's own check, and NodeReserve.
type crowd struct {
	t       *testing.T
	random  *rand.Rand
	reserve *nodeReserve
	table   *buffers.Table
	nodes   []*framework.NodeInfo
	// live are the buffers' pods whose room was not taken by one that may.
	live map[types.UID]bool
	next int
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	o, err := newObjects(informers.NewSharedInformerFactory(fake.NewClientset(), 0))
	if err != nil {
		t.Fatal(err)
	}
	promises, err := promise.New(func([]catalog.PodRef) {})
	if err != nil {
		t.Fatal(err)
	}
	reserved := reservations.New(reservations.Config{Pod: o.pod, Terminates: o.terminates, Namespaces: o.namespaces, OncePod: o.oncePod})
	shares := newOnDemandShares(o, promises, func(*corev1.Pod) string { return "" })
	return &crowd{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), table: buffers.NewTable(), live: map[types.UID]bool{},
		reserve: newNodeReserve(&guard{metrics: m}, observed{objects: o, reserved: reserved, shares: shares}, promises),
	}
}

func (c *crowd) pod(namespace, app string, cpu, priority int) *corev1.Pod {
	c.next++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprint(app, c.next), UID: types.UID(fmt.Sprint(c.next)), Labels: map[string]string{"app": app},
	}}
	pod.Spec.Priority = new(int32(priority))
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(cpu), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}}}}
	return pod
}

// fits reports whether the pod passes both filters on the node.
func (c *crowd) fits(pod *corev1.Pod, node *framework.NodeInfo) bool {
	if len(noderesources.Fits(pod, node, nil, noderesources.ResourceRequestsOptions{})) > 0 {
		return false
	}
	state := framework.NewCycleState()
	if _, status := c.reserve.PreFilter(c.t.Context(), state, pod, nil); status.IsSkip() {
		return true
	}
	return c.reserve.Filter(c.t.Context(), state, pod, node).IsSuccess()
}

// short reports whether the live room on the node is more than what is free.
func (c *crowd) short(node *framework.NodeInfo) bool {
	free := node.GetAllocatable().GetMilliCPU() - node.GetRequested().GetMilliCPU()
	for _, p := range c.table.On("", node.Node().Name) {
		if c.live[p.UID] {
			free -= p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	return free < 0
}

func (c *crowd) add(pod *corev1.Pod, node *framework.NodeInfo) {
	pod.Spec.NodeName = node.Node().Name
	node.AddPod(pod)
}

// fill makes nodes with room for pods of the two buffers, and publishes it.
func (c *crowd) fill(nodes int) {
	for _, name := range []string{"web", "api"} {
		b := buffers.Buffer{Namespace: "shop", Name: name, UID: name, Count: 2 * nodes}
		b.Template.Spec = c.pod("shop", name, 700+len(name)*100*c.random.IntN(3), 0).Spec
		b.Template.Labels = map[string]string{"app": name}
		for i, p := range b.Pods("s") {
			c.table.Put(p, "", fmt.Sprint("n", i%nodes))
			c.live[p.UID] = true
		}
	}
	c.table.Reserve("shop", map[string]*buffersize.Matcher{
		"web": {Namespace: "shop", Selector: labels.SelectorFromSet(labels.Set{"app": "web"})},
		"api": {Namespace: "shop", Selector: labels.SelectorFromSet(labels.Set{"app": "api"})},
	})
	for i := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(int64(6000+c.random.IntN(10000)), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}
		info := framework.NewNodeInfo()
		info.SetNode(node)
		c.nodes = append(c.nodes, info)
	}
	c.publish()
}

func (c *crowd) publish() { c.reserve.reserved.Publish(nil, c.table.Standing(nil)) }

// taken marks the room as taken that is not there any more after a pod came that may take the buffer's.
func (c *crowd) taken(buffer string, node *framework.NodeInfo) {
	for _, p := range c.table.On("", node.Node().Name) {
		if c.short(node) && c.live[p.UID] && p.Labels["app"] == buffer {
			delete(c.live, p.UID)
		}
	}
}

// 10,000 pods of others come in any order and size, of any priority, and go, while pods come that may take the room, and what the scheduler sees of it
// is late. No other pod takes room of a buffer, and none of the room is lost for those that may.
func TestOthersTakeNoneOfReservedRoom(t *testing.T) {
	const arrivals, nodes = 10000, 12
	for seed := range uint64(3) {
		c := newCrowd(t, seed)
		c.fill(nodes)
		lost, placed, takes, refused := 0, 0, 0, 0
		for i := range arrivals {
			other := c.pod([]string{"shop", "other"}[c.random.IntN(2)], []string{"batch", "db", "web-2"}[c.random.IntN(3)], 50+c.random.IntN(1500),
				[]int{0, 1000, math.MaxInt32}[c.random.IntN(3)])
			if other.Namespace == "other" && c.random.IntN(2) == 0 {
				other.Labels["app"] = "web" // The buffer's label, in another namespace.
			}
			for _, at := range c.random.Perm(nodes) {
				if node := c.nodes[at]; c.fits(other, node) {
					c.add(other, node)
					placed++
					if c.short(node) {
						lost++
					}
					break
				}
			}
			if c.random.IntN(2) == 0 {
				c.depart(c.nodes[c.random.IntN(nodes)])
			}
			if i%500 == 0 {
				took, kept := c.taker(nodes)
				takes, refused = takes+took, refused+kept
			}
			if i%50 == 0 {
				c.refill()
			}
		}
		if lost > 0 || refused > 0 || placed < arrivals/10 || takes == 0 {
			t.Errorf("seed %d: of %d pods %d were placed, %d of them took reserved room; %d pods took room that is theirs, %d were kept off it",
				seed, arrivals, placed, lost, takes, refused)
		}
		t.Logf("seed %d: %d arrivals, %d placed, %d took reserved room, %d takers", seed, arrivals, placed, lost, takes)
	}
}

// depart takes a pod of others off the node.
func (c *crowd) depart(node *framework.NodeInfo) {
	for _, pi := range node.GetPods() {
		if pod := pi.GetPod(); pod.Labels["taker"] == "" {
			if err := node.RemovePod(klog.Background(), pod); err != nil {
				c.t.Fatal(err)
			}
			return
		}
	}
}

// taker has a pod come for the room of a buffer, which is tried where the room is.
func (c *crowd) taker(nodes int) (took, refused int) {
	buffer := []string{"web", "api"}[c.random.IntN(2)]
	for _, at := range c.random.Perm(nodes) {
		node := c.nodes[at]
		for _, p := range c.table.On("", node.Node().Name) {
			if !c.live[p.UID] || p.Labels["app"] != buffer {
				continue
			}
			pod := c.pod("shop", buffer, int(p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()), 0)
			pod.Labels["taker"] = "yes"
			if !c.fits(pod, node) {
				return 0, 1
			}
			c.add(pod, node)
			c.taken(buffer, node)
			return 1, 0
		}
	}
	return 0, 0
}

// refill publishes what is left of the room.
func (c *crowd) refill() {
	for _, node := range c.nodes {
		for _, p := range c.table.On("", node.Node().Name) {
			if !c.live[p.UID] {
				c.table.Drop(p.UID)
			}
		}
	}
	c.publish()
}
