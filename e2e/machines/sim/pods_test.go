package sim_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/slipway-k8s/slipway/e2e/machines/sim"
)

func TestPodRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		w.boot(machine())
		w.at(40 * time.Second)
		w.bind(pod("a", "100m"))
		w.at(43 * time.Second)
		if p := w.pod("a"); p.Status.Phase != corev1.PodPending || p.Status.ContainerStatuses[0].State.Waiting == nil {
			t.Errorf("while its image is pulled: %+v", p.Status)
		}
		// Sandbox 0.4, pull 3, container 0.5.
		w.at(44 * time.Second)
		p := w.pod("a")
		if p.Status.Phase != corev1.PodRunning || condition(p, corev1.PodReady) != corev1.ConditionTrue {
			t.Errorf("status %+v", p.Status)
		}
		if p.Status.PodIP == "" || p.Status.HostIP != "10.0.1.7" {
			t.Errorf("addresses %q and %q", p.Status.PodIP, p.Status.HostIP)
		}
		// The image is there now.
		w.bind(pod("b", "100m"))
		w.at(45 * time.Second)
		if b := w.pod("b"); b.Status.Phase != corev1.PodRunning || b.Status.PodIP == p.Status.PodIP {
			t.Errorf("status of a second pod %+v", b.Status)
		}
	})
}

func TestRejectsWhatDoesNotFit(t *testing.T) {
	inBoth(t, func(w *world) {
		w.boot(machine())
		w.at(40 * time.Second)
		w.bind(pod("a", "1500m"))
		w.bind(pod("b", "1500m"))
		selective := pod("c", "10m")
		selective.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		w.bind(selective)
		w.at(45 * time.Second)
		for name, want := range map[string]string{"b": "OutOfcpu", "c": "NodeAffinity"} {
			if p := w.pod(name); p.Status.Phase != corev1.PodFailed || p.Status.Reason != want {
				t.Errorf("%s is %s with reason %q, want it rejected with %s", name, p.Status.Phase, p.Status.Reason, want)
			}
		}
		if p := w.pod("a"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("a is %s", p.Status.Phase)
		}
		events, err := w.client.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		reasons := map[string]bool{}
		for _, e := range events.Items {
			reasons[e.Reason] = true
		}
		if !reasons["OutOfcpu"] || !reasons["NodeAffinity"] || !reasons["NodeReady"] {
			t.Errorf("events %v", reasons)
		}
	})
}

func gpuPod(name string) *corev1.Pod {
	p := pod(name, "100m")
	one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	p.Spec.Containers[0].Resources.Limits = one
	p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = one["nvidia.com/gpu"]
	return p
}

// R1: a pod that is bound before the device plugin registered runs without its GPU; one that sees the kubelet's zero is
// rejected; one that waits gets it.
func TestPodsBoundBeforeTheirDevices(t *testing.T) {
	inBoth(t, func(w *world) {
		m := machine()
		m.GPUs, m.GPUResource = 1, "nvidia.com/gpu"
		w.boot(m)
		w.at(40 * time.Second)
		w.bind(gpuPod("early"))
		w.at(45 * time.Second)
		p := w.pod("early")
		if p.Status.Phase != corev1.PodRunning || condition(p, sim.WithoutDevicesCondition) != corev1.ConditionTrue {
			t.Errorf("bound before the device plugin: %s, conditions %v", p.Status.Phase, p.Status.Conditions)
		}
		w.at(61 * time.Second)
		if err := w.client.CoreV1().Pods("default").Delete(w.ctx, "early", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.at(62 * time.Second)
		w.bind(gpuPod("patient"))
		w.at(66 * time.Second)
		p = w.pod("patient")
		if p.Status.Phase != corev1.PodRunning || condition(p, sim.WithoutDevicesCondition) != "" {
			t.Errorf("bound once allocatable showed the GPU: %s %s, conditions %v", p.Status.Phase, p.Status.Reason, p.Status.Conditions)
		}
	})
}

func TestZeroedDevicesReject(t *testing.T) {
	inBoth(t, func(w *world) {
		gpus := corev1.ResourceList{"cpu": resource.MustParse("2"), "pods": resource.MustParse("29"), "nvidia.com/gpu": resource.MustParse("1")}
		w.createNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Status: corev1.NodeStatus{Capacity: gpus, Allocatable: gpus}})
		m := machine()
		m.GPUs, m.GPUResource = 1, "nvidia.com/gpu"
		w.boot(m)
		w.at(40 * time.Second)
		w.bind(gpuPod("early"))
		w.at(41 * time.Second)
		if p := w.pod("early"); p.Status.Phase != corev1.PodFailed || p.Status.Reason != "OutOfnvidia.com/gpu" {
			t.Errorf("%s %s", p.Status.Phase, p.Status.Reason)
		}
	})
}

// R12: pods bound before the network is ready. The kubelet starts at 30 s, the network is ready at 38 s.
func TestPodsBoundBeforeTheNetwork(t *testing.T) {
	inBoth(t, func(w *world) {
		size := corev1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("29"), "memory": resource.MustParse("4Gi")}
		w.createNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Status: corev1.NodeStatus{Capacity: size, Allocatable: size}})
		ordinary, plain, host := pod("ordinary", "10m"), pod("plain", "10m"), pod("host", "10m")
		plain.Spec.Volumes = nil
		host.Spec.HostNetwork = true
		for _, p := range []*corev1.Pod{ordinary, plain, host} {
			w.bind(p)
		}
		w.boot(machine())
		// At once: sandbox 0.4 s, pull 3 s, container 0.5 s.
		w.at(34 * time.Second)
		if p := w.pod("host"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("a hostNetwork pod is %s 4 s after the kubelet's start", p.Status.Phase)
		}
		// At the next sync after the network: 38.6 + 0.4 + 0.5, the image is there.
		w.at(40 * time.Second)
		if p := w.pod("plain"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("a pod without API-backed volumes is %s 2 s after the network", p.Status.Phase)
		}
		// Attempts to mount at 0, 0.5, 1.5, 3.5, 7.5 and 15.5 s; the last is the first after 8.6 s.
		w.at(46 * time.Second)
		if p := w.pod("ordinary"); p.Status.Phase != corev1.PodPending {
			t.Errorf("an ordinary pod is %s 8 s after the network, before its next attempt", p.Status.Phase)
		}
		w.at(47 * time.Second)
		if p := w.pod("ordinary"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("an ordinary pod is %s 17 s after the kubelet's start", p.Status.Phase)
		}
	})
}

func TestGracefulDeletion(t *testing.T) {
	inBoth(t, func(w *world) {
		w.boot(machine())
		w.at(40 * time.Second)
		slow, stubborn := pod("slow", "10m"), pod("stubborn", "10m")
		slow.Annotations[sim.StopsInAnnotation] = "5s"
		stubborn.Annotations[sim.StopsInAnnotation] = "1h"
		w.bind(slow)
		w.bind(stubborn)
		w.at(50 * time.Second)
		for _, name := range []string{"slow", "stubborn"} {
			p := w.pod(name)
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(30 * time.Second)}, new(int64(30))
			if _, err := w.client.CoreV1().Pods("default").Update(w.ctx, p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.at(54 * time.Second)
		if p := w.pod("slow"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("4 s after SIGTERM: %s", p.Status.Phase)
		}
		w.at(56 * time.Second)
		if _, err := w.client.CoreV1().Pods("default").Get(w.ctx, "slow", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the pod is still there after its containers stopped: %v", err)
		}
		w.at(79 * time.Second)
		w.pod("stubborn")
		w.at(81 * time.Second)
		if _, err := w.client.CoreV1().Pods("default").Get(w.ctx, "stubborn", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the pod outlived its grace period: %v", err)
		}
	})
}

func TestJobsEnd(t *testing.T) {
	inBoth(t, func(w *world) {
		w.boot(machine())
		w.at(40 * time.Second)
		good, bad := pod("good", "10m"), pod("bad", "10m")
		for _, p := range []*corev1.Pod{good, bad} {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Annotations[sim.RunForAnnotation] = "10s"
		}
		bad.Annotations[sim.ExitCodeAnnotation] = "3"
		good.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox"}}
		w.bind(good)
		w.bind(bad)
		w.at(50 * time.Second)
		if p := w.pod("good"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("while it runs: %s", p.Status.Phase)
		}
		w.at(65 * time.Second)
		if p := w.pod("good"); p.Status.Phase != corev1.PodSucceeded || p.Status.InitContainerStatuses[0].State.Terminated == nil {
			t.Errorf("status %+v", p.Status)
		}
		if p := w.pod("bad"); p.Status.Phase != corev1.PodFailed || p.Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
			t.Errorf("status %+v", p.Status)
		}
	})
}

// A pod that went away behind the kubelet's back keeps no other waiting for its status.
func TestAVanishedPodHoldsUpNobody(t *testing.T) {
	inBoth(t, func(w *world) {
		missing := func(a clienttesting.Action) (bool, runtime.Object, error) {
			named, ok := a.(interface{ GetName() string })
			if !ok || named.GetName() != "vanished" {
				return false, nil, nil
			}
			return true, nil, apierrors.NewNotFound(corev1.Resource("pods"), "vanished")
		}
		w.client.PrependReactor("get", "pods", missing)
		w.client.PrependReactor("patch", "pods", missing)
		w.boot(machine())
		w.at(40 * time.Second)
		w.bind(pod("vanished", "10m"))
		w.bind(pod("other", "10m"))
		w.at(44 * time.Second)
		if p := w.pod("other"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("the other pod is %s", p.Status.Phase)
		}
		w.client.ClearActions()
		w.at(10 * time.Minute)
		for _, a := range w.client.Actions() {
			if a.GetVerb() == "patch" && a.GetResource().Resource == "pods" {
				t.Errorf("still tries to write %v", a)
			}
		}
	})
}

// The node authorizer answers Forbidden for pods that are no more. Writes of a hundred such pods, removed without a grace period, delay
// nothing, and end when the watch has seen the removals.
func TestVanishedPodsWhoseReadIsForbidden(t *testing.T) {
	inBoth(t, func(w *world) {
		vanished := func(a clienttesting.Action) (string, bool) {
			named, ok := a.(interface{ GetName() string })
			return "vanished", ok && strings.HasPrefix(named.GetName(), "vanished")
		}
		w.client.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			name, ok := vanished(a)
			return ok, nil, apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("no relationship found between node and this object"))
		})
		w.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			name, ok := vanished(a)
			return ok, nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
		})
		m := machine()
		m.PodLimit = 200
		w.boot(m)
		w.at(40 * time.Second)
		for i := range 100 {
			w.bind(pod(fmt.Sprintf("vanished-%d", i), "1m"))
		}
		w.bind(pod("other", "10m"))
		w.at(45 * time.Second)
		if p := w.pod("other"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("the other pod is %s", p.Status.Phase)
		}
		for i := range 100 {
			if err := w.client.CoreV1().Pods("default").Delete(w.ctx, fmt.Sprintf("vanished-%d", i), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.at(46 * time.Second)
		w.client.ClearActions()
		w.at(10 * time.Minute)
		for _, a := range w.client.Actions() {
			if a.GetVerb() == "patch" && a.GetResource().Resource == "pods" {
				t.Errorf("still tries to write %v", a)
			}
		}
	})
}

// A status that cannot be written is tried again, and arrives once the API server takes it.
func TestAStatusIsTriedAgain(t *testing.T) {
	inBoth(t, func(w *world) {
		var refuse atomic.Bool
		refuse.Store(true)
		w.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return refuse.Load(), nil, apierrors.NewServiceUnavailable("busy")
		})
		w.boot(machine())
		w.at(40 * time.Second)
		w.bind(pod("a", "10m"))
		w.at(60 * time.Second)
		if p := w.pod("a"); p.Status.Phase != corev1.PodPending {
			t.Errorf("while the API server refuses: %s", p.Status.Phase)
		}
		refuse.Store(false)
		w.at(66 * time.Second)
		if p := w.pod("a"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("once it accepts: %s", p.Status.Phase)
		}
	})
}

// The API server's second step of a deletion (grace 0) makes the kubelet write nothing more.
func TestNothingIsWrittenAfterTheLastDeletion(t *testing.T) {
	inBoth(t, func(w *world) {
		w.boot(machine())
		w.at(40 * time.Second)
		w.bind(pod("a", "10m"))
		w.at(50 * time.Second)
		w.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, nil // Accepted, and kept by a finalizer.
		})
		mark := func(grace int64) {
			p := w.pod("a")
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}, &grace
			if _, err := w.client.CoreV1().Pods("default").Update(w.ctx, p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		mark(30)
		w.at(55 * time.Second)
		if p := w.pod("a"); p.Status.Phase != corev1.PodSucceeded {
			t.Errorf("after its containers stopped: %s", p.Status.Phase)
		}
		w.client.ClearActions()
		mark(0)
		w.at(60 * time.Second)
		for _, a := range w.client.Actions() {
			if verb := a.GetVerb(); a.GetResource().Resource == "pods" && (verb == "patch" || verb == "delete") {
				t.Errorf("the kubelet did %s once more", verb)
			}
		}
	})
}
