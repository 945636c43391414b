package plugin_test

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// Without its launcher the scheduler is a scheduler: it says what it cannot do, and does it as soon as it can.
func TestLauncherAway(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{newNode("small", "600m", nil)}})
	h.pod("fits", nil)
	h.eventually("scheduling on existing nodes", func() bool { return h.bound() == 1 })
	h.pod("waits", nil)
	h.eventually("the pod's condition", func() bool { return h.says("waits", "slipway-launcher cannot be reached", "0/1 nodes are available") })
	if v := h.metric("slipway_launcher_connected", ""); v != 0 {
		t.Errorf("slipway_launcher_connected is %v", v)
	}
	briefly, cancel := context.WithTimeout(h.ctx, time.Millisecond)
	defer cancel()
	if h.plugin.AwaitLauncher(briefly) {
		t.Error("the launcher is taken to be connected")
	}
	connected := make(chan bool, 1)
	go func() { connected <- h.plugin.AwaitLauncher(h.ctx) }()
	h.launcher.serve(t)
	if !<-connected {
		t.Error("the wait for the launcher has ended without it")
	}
	h.eventually("a launch when it is back", func() bool { return h.launcher.podNames()["waits"] == 1 })
	if v := h.metric("slipway_launcher_connected", ""); v != 1 {
		t.Errorf("slipway_launcher_connected is %v", v)
	}
	lead := h.launcher.leads[0]
	if lead.GetIdentity() != "me" || lead.GetLeaseName() != "slipway-scheduler" {
		t.Errorf("the launcher got %v", lead)
	}
}

// A launcher of another version of the contract: pods say so, those that fit are scheduled, and what is promised is kept. Once the
// launcher is of the same release, nodes are launched.
func TestLauncherOfAnotherVersion(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		absent: true, objects: []runtime.Object{newNode("small", "600m", nil)},
		prepare: func(l *testLauncher) {
			l.version = &api.Version{Major: api.ProtocolMajor + 1}
			// As it would be in the state of a launcher that this scheduler does not understand.
			l.pools, l.types = nil, nil
		},
	})
	h.launcher.serve(t)
	h.pod("fits", nil)
	h.eventually("scheduling on existing nodes", func() bool { return h.bound() == 1 })
	h.pod("waits", nil)
	want := fmt.Sprintf("slipway-launcher speaks version %d.0 of the contract between slipway's containers, slipway-scheduler version %s: run both from one release",
		api.ProtocolMajor+1, api.OwnVersion().Text())
	h.eventually("the pod's condition", func() bool { return h.says("waits", want, "0/1 nodes are available") })
	h.eventually("a Warning", func() bool { return h.warned(want) })
	other := h.launcher.version.Text()
	if v, info := h.metric("slipway_launcher_connected", ""), h.metric("slipway_protocol_info", other); v != 0 || info != 1 {
		t.Errorf("slipway_launcher_connected is %v, slipway_protocol_info of launcher %s %v", v, other, info)
	}
	h.launchedNothing()
	h.launcher.mu.Lock()
	h.launcher.version = api.OwnVersion()
	h.launcher.pools, h.launcher.types = []*api.NodePool{pool("default")}, []*api.InstanceTypes{{NodeClass: "default", Types: instanceTypes()}}
	h.launcher.mu.Unlock()
	h.eventually("a launch when both are of one release", func() bool { return h.launcher.podNames()["waits"] == 1 })
	if old, own := h.metric("slipway_protocol_info", other), h.metric("slipway_protocol_info", api.OwnVersion().Text()); old != 0 || own != 1 {
		t.Errorf("slipway_protocol_info of launcher %s is %v, of the same version %v", other, old, own)
	}
}

// warned reads the Events that were sent since it was called last, and reports whether a Warning among them says the text.
func (h *harness) warned(text string) bool {
	for {
		select {
		case e := <-h.recorder.Events:
			if strings.HasPrefix(e, corev1.EventTypeWarning) && strings.Contains(e, text) {
				return true
			}
		default:
			return false
		}
	}
}

// A failed launch lets its pods go and they are planned again at once.
func TestFailedLaunchIsPlannedAgain(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	h.deployment("web", 3)
	h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == 3 })
	for _, c := range h.launcher.claims() {
		h.launcher.end(c.GetName(), "", api.Outcome_OUTCOME_FAILED)
	}
	h.eventually("another launch for the same pods", func() bool {
		for _, n := range h.launcher.podNames() {
			if n != 2 {
				return false
			}
		}
		return true
	})
}

// Launches that keep failing must not spend money in a loop.
func TestBackOffPerNodePool(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)},
		prepare: func(l *testLauncher) {
			l.refuse = func(c *api.Claim) *api.Result {
				return &api.Result{Name: c.GetName(), Reason: "NodePoolNotFound", Message: "nodepool default is gone"}
			}
		},
	})
	begin := time.Now()
	h.pod("a", nil)
	h.eventually("the pod's condition", func() bool { return strings.Contains(h.message("a"), "launches in a row failed") })
	// Four at once, and then twice the time after each.
	if n, most := len(h.launcher.requests()), 5+bits.Len(uint(time.Since(begin).Seconds())); n > most {
		t.Errorf("%d launches in %s, want %d at most", n, time.Since(begin), most)
	}
	h.launcher.mu.Lock()
	h.launcher.refuse = nil
	before := len(h.launcher.launches)
	h.launcher.mu.Unlock()
	h.eventually("another try", func() bool { return len(h.launcher.requests()) > before })
}

// What cannot be placed says why, and is planned again when what can be launched changes.
func TestUnplacedPodIsExplained(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	h.pod("gpu", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/arch": "amd64"} })
	h.pod("daemon", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"full"}},
			}}},
		}}}
	})
	h.eventually("the reason", func() bool {
		return h.says("gpu", "NodePool default", "0/1 nodes are available", "No node can be launched")
	})
	h.eventually("the pinned pod's reason", func() bool { return strings.Contains(h.message("daemon"), "pinned to node full") })
	h.launcher.offerAMD()
	h.eventually("a launch once there is a type", func() bool { return h.launcher.podNames()["gpu"] == 1 })
	if n := h.launcher.podNames()["daemon"]; n != 0 {
		t.Errorf("a node was launched for a pod pinned to another")
	}
}

// A restart loses no promise: the first full state has them.
func TestPromisesComeBackWithTheFullState(t *testing.T) {
	t.Parallel()
	promised := newPod("promised", "500m", "512Mi")
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil), promised},
		prepare: func(l *testLauncher) {
			l.inFlight["default-old"] = &api.InFlightNode{
				NodeClaim: "default-old", NodePool: "default", Phase: api.Phase_PHASE_LAUNCHED,
				Labels: map[string]string{"karpenter.sh/nodepool": "default"}, Allocatable: map[string]string{"cpu": "1930m", "memory": "7Gi", "pods": "58"},
				Pods: []*api.PodRef{{Namespace: "default", Name: "promised", Uid: "uid-promised"}},
			}
		},
	})
	h.eventually("the promise", func() bool { return h.metric("slipway_promised_pods", "") == 1 })
	h.pod("other", nil)
	h.eventually("the other pod", func() bool { return h.launcher.podNames()["other"] == 1 })
	if n := h.launcher.podNames()["promised"]; n != 0 {
		t.Error("the promised pod was launched for again")
	}
	h.createNode(newNode("ip-old", "1930m", map[string]string{"karpenter.sh/nodepool": "default"}))
	h.launcher.end("default-old", "ip-old", api.Outcome_OUTCOME_INITIALIZED)
	h.eventually("the pod to be bound", func() bool { return h.bound() >= 1 })
}

// A bug of ours must not stop ordinary scheduling, wherever it strikes.
func TestPanicsLeaveSchedulingGoing(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"PreEnqueue", "PreFilter", "PostFilter", "Filter", "Plan", "NextPod", "SchedulePod", "FailureHandler"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			young := newNode("room", "1100m", map[string]string{"karpenter.sh/nodepool": "x"}) // Nodes are filtered while one is young.
			young.Status.Conditions[0].LastTransitionTime = metav1.Now()
			h := start(t, harnessOptions{
				// Only planning needs the launcher; elsewhere the third pod would be promised a node of its own.
				absent:  point != "Plan",
				objects: []runtime.Object{young},
				fault: func(p string, _ *corev1.Pod) {
					if p == point {
						panic("injected")
					}
				},
			})
			h.pod("first", nil)
			h.pod("second", nil)
			h.eventually("scheduling on existing nodes", func() bool { return h.bound() == 2 })
			h.pod("third", nil)
			h.eventually("the recovered panic to be counted", func() bool {
				return h.metric("slipway_plugin_panics_total", point)+h.metric("slipway_hook_trips_total", point) > 0
			})
			h.createNode(newNode("more", "1100m", nil))
			h.eventually("the pod that failed to be scheduled later", func() bool { return h.bound() == 3 })
		})
	}
}

// One pod that our planning breaks on must not take others along.
func TestOnePodIsSetAside(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)},
		fault: func(p string, pod *corev1.Pod) {
			if p == "Plan" && pod.Name == "web-2" {
				panic("injected")
			}
		},
	})
	h.deployment("web", 8)
	h.eventually("the others to be launched for", func() bool { return len(h.launcher.podNames()) == 7 })
	h.eventually("the pod's condition", func() bool {
		return strings.Contains(h.message("web-2"), "planning this pod failed (panic: injected); it is planned again after")
	})
	if h.launcher.podNames()["web-2"] != 0 {
		t.Error("the pod that breaks planning was launched for")
	}
}

// A pod that breaks planning holds up the pods of its own namespace alone, and only as long as it does: the others are
// launched for without being halved, and it is tried again after some seconds.
func TestFailuresStayInTheirNamespace(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	var mu sync.Mutex
	tries := map[string]int{}
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)}, args: []string{"batchIdle: 1s", "batchMax: 2s"},
		fault: func(p string, pod *corev1.Pod) {
			if p != "Plan" {
				return
			}
			mu.Lock()
			tries[pod.Name]++
			mu.Unlock()
			if pod.Namespace == "tenant" && !mended.Load() {
				panic("injected")
			}
		},
	})
	for i := range 3 {
		h.pod(fmt.Sprintf("bad-%d", i), func(p *corev1.Pod) { p.Namespace = "tenant" })
		h.pod(fmt.Sprintf("good-%d", i), nil)
	}
	h.eventually("the others to be launched for", func() bool { return len(h.launcher.podNames()) == 3 })
	mu.Lock()
	for i := range 3 {
		if n := tries[fmt.Sprintf("good-%d", i)]; n > 2 {
			t.Errorf("pod good-%d was planned %d times, want twice at most: with the tenant's, and without", i, n)
		}
	}
	mu.Unlock()
	if n := h.metric("slipway_planned_pods_total", "set_aside"); n > 3 {
		t.Errorf("%v pods were set aside, want the tenant's three at most", n)
	}
	mended.Store(true)
	h.eventually("the tenant's pods to be launched for", func() bool { return len(h.launcher.podNames()) == 6 })
}

// Pods for which nothing can be launched are not planned again for each word from the launcher.
func TestHopelessPodsAreLeftAlone(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)}, args: []string{"batchIdle: 1m", "batchMax: 2m"},
	})
	batches := func() float64 { return h.metric("slipway_batches_total", "drained-and-complete") }
	h.pod("huge", func(p *corev1.Pod) { p.Spec.Containers = newPod("x", "500", "1Gi").Spec.Containers })
	h.eventually("the reason", func() bool { return strings.Contains(h.message("huge"), "NodePool default") })
	before := batches()
	for range 20 {
		h.launcher.mu.Lock()
		types := instanceTypes()
		types[0].Offerings[0].Price *= 2
		h.launcher.publish(func() *api.CatalogUpdate {
			return &api.CatalogUpdate{InstanceTypes: []*api.InstanceTypes{{NodeClass: "default", Types: types}}}
		})
		h.launcher.mu.Unlock()
	}
	h.pod("other", nil)
	h.eventually("another pod's launch", func() bool { return h.launcher.podNames()["other"] == 1 })
	if n := batches() - before; n != 1 {
		t.Errorf("%v batches were planned, want the other pod's alone", n)
	}
}

// Pods whose plan ran out of time wait for the next one with the reason, and are not set aside: others may have taken the time.
func TestTimeOfAPlanIsNoFault(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)}, args: []string{"planTimeout: 1ns"},
	})
	h.deployment("web", 3)
	h.eventually("the pods' conditions", func() bool { return strings.Contains(h.message("web-2"), "planning ran out of time") })
	h.eventually("another plan", func() bool { return h.metric("slipway_plans_cut_short_total", "provisioner") > 1 })
	if n := h.metric("slipway_planned_pods_total", "set_aside"); n > 0 {
		t.Errorf("%v pods were set aside", n)
	}
	if n := len(h.launcher.podNames()); n > 0 {
		t.Errorf("%d pods were launched for that the filters were not asked about", n)
	}
}

// startWhilePlanned starts a scheduler in whose first plan something happens.
func startWhilePlanned(t *testing.T, happens func(*harness)) *harness {
	t.Helper()
	var h *harness
	var once sync.Once
	h = start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)},
		fault: func(p string, _ *corev1.Pod) {
			if p == "Plan" {
				once.Do(func() { happens(h) })
			}
		},
	})
	return h
}

// A plan takes its time. No node is launched for pods that are deleted or bound meanwhile.
func TestPodsThatGoWhileTheyArePlanned(t *testing.T) {
	t.Parallel()
	h := startWhilePlanned(t, func(h *harness) {
		for i := range 7 {
			if err := h.client.CoreV1().Pods("default").Delete(h.ctx, fmt.Sprintf("web-%d", i), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
		h.eventually("the informer to have seen it", func() bool {
			pods, err := h.informer.Core().V1().Pods().Lister().List(labels.Everything())
			return err == nil && len(pods) == 1
		})
	})
	h.deployment("web", 8)
	h.eventually("the pod that is left to be launched for", func() bool { return len(h.launcher.podNames()) > 0 })
	if names := h.launcher.podNames(); len(names) != 1 || names["web-7"] == 0 {
		t.Errorf("launched for %v, want web-7 alone", names)
	}
}
