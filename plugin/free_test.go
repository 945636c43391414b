package plugin_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// boundTo counts the pods that are bound to a node in the API server, and those that the scheduler has not decided about.
func (h *harness) boundTo(node string) (bound, open int) {
	h.t.Helper()
	list, err := h.client.CoreV1().Pods("default").List(h.ctx, metav1.ListOptions{LabelSelector: "for=" + node})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, p := range list.Items {
		switch {
		case p.Spec.NodeName == node:
			bound++
		case len(p.Status.Conditions) == 0:
			open++
		}
	}
	return bound, open
}

// Pods come at random while a node is cordoned and asked about: once the real scheduler has said that it is free, no pod is bound
// to it that was not bound then, which the launcher's last look would show.
func TestFreeNodeStaysFree(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	rng := rand.New(rand.NewPCG(7, 7))
	free, busy := 0, 0
	for i := range 15 {
		node := fmt.Sprint("node-", i)
		h.createNode(newNode(node, "4", nil))
		h.eventually("the node to be known", func() bool { _, ok := h.sched.Cache.Dump().Nodes[node]; return ok })
		var pods sync.WaitGroup
		for j := range 3 {
			wait := time.Duration(rng.IntN(15)) * time.Millisecond
			pods.Go(func() {
				time.Sleep(wait)
				h.pod(fmt.Sprint(node, "-", j), func(p *corev1.Pod) {
					p.Labels = map[string]string{"for": node}
					p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node}
				})
			})
		}
		time.Sleep(time.Duration(rng.IntN(15)) * time.Millisecond)
		h.updateNode(newNode(node, "4", nil, disrupted()))
		id := fmt.Sprint("free-", i)
		answer := h.ask(&api.Question{Id: id, Kind: &api.Question_NodeBusy{NodeBusy: &api.NodeBusy{NodeName: node}}}).GetNodeBusy()
		then, _ := h.boundTo(node)
		pods.Wait()
		h.eventually("the pods to be decided about", func() bool { _, open := h.boundTo(node); return open == 0 })
		if now, _ := h.boundTo(node); !answer.GetBusy() && now > then {
			t.Errorf("%s was free with %d pods bound, and has %d now", node, then, now)
		}
		if answer.GetBusy() {
			busy++
		} else {
			free++
		}
	}
	t.Logf("%d answers free, %d busy", free, busy)
	if free == 0 {
		t.Error("no node was ever free")
	}
}

// A node is cordoned and asked about while room for a buffer is planned there: it is not free, for the plan does not know of the cordon.
func TestNodeIsNotFreeWhileABufferIsPlanned(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}), make(chan struct{})
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("one", "1930m", bought("m7g.large", "on-demand"))},
		fault: func(point string, _ *corev1.Pod) {
			if point == "Plan" {
				begun <- struct{}{}
				<-goOn
			}
		},
	})
	h.known("one", 0)
	h.launcher.questions <- &api.Question{Id: "place", Kind: &api.Question_PlaceBuffers{PlaceBuffers: &api.PlaceBuffers{
		Namespace: "default", Buffers: []*api.Buffer{buffer(t, "spare", 1, "1500m", nil)},
	}}}
	<-begun
	h.updateNode(newNode("one", "1930m", bought("m7g.large", "on-demand"), disrupted()))
	h.launcher.questions <- &api.Question{Id: "busy", Kind: &api.Question_NodeBusy{NodeBusy: &api.NodeBusy{NodeName: "one"}}}
	time.AfterFunc(300*time.Millisecond, func() { close(goOn) })
	answers := map[string]*api.Answer{}
	for range 2 {
		a := <-h.launcher.answers
		answers[a.GetId()] = a
	}
	if got := answers["place"].GetPlaceBuffers().GetBuffers()[0]; !slices.Equal(got.GetNodeNames(), []string{"one"}) {
		t.Fatalf("places %v", got)
	}
	if a := answers["busy"].GetNodeBusy(); !a.GetBusy() {
		t.Error("the node is free, and has the room of a buffer")
	}
}
