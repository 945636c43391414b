package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

func TestRegistersAlone(t *testing.T) {
	inBoth(t, func(w *world) {
		w.boot(machine())
		w.at(29 * time.Second)
		if _, err := w.client.CoreV1().Nodes().Get(w.ctx, nodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a Node before the kubelet started: %v", err)
		}
		w.at(31 * time.Second)
		node := w.node()
		if got, want := ready(node), "False/KubeletNotReady"; got != want {
			t.Errorf("before the network: Ready %s, want %s", got, want)
		}
		wantTaints := []corev1.Taint{
			{Key: "slipway.dev/starting", Effect: corev1.TaintEffectNoSchedule},
			{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}
		if diff := cmp.Diff(wantTaints, node.Spec.Taints); diff != "" {
			t.Errorf("taints, -want +got:\n%s", diff)
		}
		for key, want := range map[string]string{
			"karpenter.sh/nodepool": "default", "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": nodeName,
		} {
			if got := node.Labels[key]; got != want {
				t.Errorf("label %s is %q, want %q", key, got, want)
			}
		}
		if got, want := node.Spec.ProviderID, "aws:///us-east-1a/i-0123"; got != want {
			t.Errorf("providerID %s, want %s", got, want)
		}
		w.at(38*time.Second + 50*time.Millisecond)
		if got, want := ready(w.node()), "True/KubeletReady"; got != want {
			t.Errorf("once the network is there: Ready %s, want %s", got, want)
		}
		lease, err := w.client.CoordinationV1().Leases("kube-node-lease").Get(w.ctx, nodeName, metav1.GetOptions{})
		if err != nil || *lease.Spec.HolderIdentity != nodeName || *lease.Spec.LeaseDurationSeconds != 40 {
			t.Errorf("lease %+v, %v", lease, err)
		}
	})
}

// What a registering kubelet changes of a Node that was made for it, and what it leaves alone (SCHEDULER 5).
func TestRegistersOnAnExistingNode(t *testing.T) {
	inBoth(t, func(w *world) {
		taints := []corev1.Taint{{Key: "slipway.dev/starting", Effect: corev1.TaintEffectNoSchedule}, {Key: "mine", Effect: corev1.TaintEffectNoExecute}}
		addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.1.7"}, {Type: corev1.NodeExternalIP, Address: "54.0.1.7"}}
		w.createNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{"team": "a", "kubernetes.io/arch": "amd64"}},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0123", Taints: taints},
			Status: corev1.NodeStatus{
				Addresses:   addresses,
				Capacity:    corev1.ResourceList{"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("4")},
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("4")},
			},
		})
		holder, seconds, renewed := nodeName, int32(40), metav1.NewMicroTime(time.Now())
		_, err := w.client.CoordinationV1().Leases("kube-node-lease").Create(w.ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: "kube-node-lease"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := machine()
		m.GPUs, m.GPUResource = 4, "nvidia.com/gpu"
		w.boot(m)
		w.at(31 * time.Second)
		node := w.node()
		if diff := cmp.Diff(taints, node.Spec.Taints); diff != "" {
			t.Errorf("taints, -want +got:\n%s", diff)
		}
		if diff := cmp.Diff(addresses, node.Status.Addresses); diff != "" {
			t.Errorf("addresses, -want +got:\n%s", diff)
		}
		want := map[string]string{"team": "a", "karpenter.sh/nodepool": "", "kubernetes.io/arch": "arm64", "kubernetes.io/hostname": nodeName}
		for key, value := range want {
			if node.Labels[key] != value {
				t.Errorf("label %s is %q, want %q", key, node.Labels[key], value)
			}
		}
		if node.Annotations["volumes.kubernetes.io/controller-managed-attach-detach"] != "true" {
			t.Errorf("annotations %v lack the one for attach and detach", node.Annotations)
		}
		if gpus := node.Status.Allocatable["nvidia.com/gpu"]; !gpus.IsZero() {
			t.Errorf("%v GPUs before the device plugin registered", gpus.String())
		}
		if cpu := node.Status.Allocatable["cpu"]; cpu.String() != "1930m" {
			t.Errorf("allocatable CPU %s after the first status", cpu.String())
		}
		lease, err := w.client.CoordinationV1().Leases("kube-node-lease").Get(w.ctx, nodeName, metav1.GetOptions{})
		if err != nil || lease.OwnerReferences == nil || !lease.Spec.RenewTime.After(renewed.Time) {
			t.Errorf("the Lease was not taken over: %+v, %v", lease, err)
		}
		// Ready at 38 s, the device plugin 12 s later, the next status within 10 s.
		w.at(61 * time.Second)
		if gpus := w.node().Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != 4 {
			t.Errorf("%v GPUs once the device plugin registered", gpus.String())
		}
	})
}

func TestSwitchedOffIsSilent(t *testing.T) {
	inBoth(t, func(w *world) {
		off := w.boot(machine())
		w.at(60 * time.Second)
		w.bind(pod("late", "100m"))
		off()
		w.at(61 * time.Second)
		w.client.ClearActions()
		w.at(10 * time.Minute)
		for _, a := range w.client.Actions() {
			if verb := a.GetVerb(); verb != "watch" && verb != "list" {
				t.Errorf("a machine that is off did %s %s", verb, a.GetResource().Resource)
			}
		}
	})
}

// Nothing is written while nothing changes, but once in five minutes the status.
func TestIdleHeartbeat(t *testing.T) {
	inWorld(t, func(w *world) {
		w.boot(machine())
		w.at(60 * time.Second)
		w.client.ClearActions()
		w.at(60*time.Second + 10*time.Minute)
		statuses, leases := 0, 0
		for _, a := range w.client.Actions() {
			switch {
			case a.GetVerb() == "patch" && a.GetResource().Resource == "nodes":
				statuses++
			case a.GetVerb() == "update" && a.GetResource().Resource == "leases":
				leases++
			}
		}
		if statuses != 2 || leases < 55 || leases > 62 {
			t.Errorf("in 10 minutes %d statuses and %d renewals of the Lease, want 2 and about 60", statuses, leases)
		}
	})
}

func TestManagedNodeNeedsNoUserDataAndNoTime(t *testing.T) {
	inBoth(t, func(w *world) {
		m := machine()
		m.UserData, m.NodeGroup, m.Type = "", "system", "t3.medium"
		w.boot(m)
		w.at(time.Second)
		node := w.node()
		if got, want := ready(node), "True/KubeletReady"; got != want {
			t.Errorf("Ready %s, want %s", got, want)
		}
		if got := node.Labels["eks.amazonaws.com/nodegroup"]; got != "system" {
			t.Errorf("node group %q", got)
		}
		w.bind(pod("coredns", "100m"))
		w.at(6 * time.Second)
		if got := w.pod("coredns").Status.Phase; got != corev1.PodRunning {
			t.Errorf("the pod is %s", got)
		}
	})
}

func TestBadUserDataDoesNotJoin(t *testing.T) {
	inBoth(t, func(w *world) {
		for name, change := range map[string]func(*instance.Instance){
			"none":            func(m *instance.Instance) { m.UserData = "" },
			"another cluster": func(m *instance.Instance) { m.UserData = strings.Replace(userData, "name: sandbox", "name: other", 1) },
		} {
			m := machine()
			change(&m)
			if err := w.sim.Machine(w.ctx, m); err == nil {
				t.Errorf("%s: the machine joined", name)
			}
		}
	})
}
