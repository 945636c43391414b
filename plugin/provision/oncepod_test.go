package provision_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
	"github.com/slipway-k8s/slipway/plugin/verify"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// owner is a pod with the claim data, of the app.
func owner(name, app string) *st.PodWrapper {
	return verifytest.Pod(app).Namespace("default").Name(name).UID(name).SchedulerName("default-scheduler").PVC("data")
}

// One pod at a time gets a node for a ReadWriteOncePod claim, and none as long as a pod has it that stays.
func TestReadWriteOncePod(t *testing.T) {
	const inUse = "volume claim data: its access mode is ReadWriteOncePod, and pod default/old uses it"
	old := owner("old", "a").Node("n").Obj()
	node := st.MakeNode().Name("n").UID("n").Capacity(map[corev1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj()
	for name, c := range map[string]onceCase{
		"no pod has it": {pods: []*corev1.Pod{owner("a0", "a").Obj()}, want: "a0"},
		"a pod on a node has it": {
			pods: []*corev1.Pod{owner("a0", "a").Obj(), owner("b0", "b").Obj()}, bound: []*corev1.Pod{old}, why: inUse,
		},
		"a pod on a node that terminates has it": {
			pods: []*corev1.Pod{owner("a0", "a").Obj()}, bound: []*corev1.Pod{old}, source: clusterview.Source{Going: map[string]bool{"n": true}}, why: inUse,
		},
		"a pod that moves has it": {
			pods: []*corev1.Pod{owner("old", "a").Obj()}, bound: []*corev1.Pod{old}, source: clusterview.Source{Leave: map[types.UID]bool{"old": true}}, want: "old",
		},
		"a pod that has ended had it": {
			pods: []*corev1.Pod{owner("a0", "a").Obj()}, bound: []*corev1.Pod{owner("old", "a").Node("n").Phase(corev1.PodSucceeded).Obj()}, want: "a0",
		},
		"a pod with a promise gets it": {
			pods: []*corev1.Pod{owner("a0", "a").Obj()}, why: inUse,
			source: clusterview.Source{
				Catalog: catalog.State{InFlight: map[string]catalog.InFlightNode{"new": {
					NodeClaim: "new", NodePool: "default", Allocatable: node.Status.Allocatable, Pods: []catalog.PodRef{{Namespace: "default", Name: "old", UID: "old"}},
				}}},
				Pod: func(catalog.PodRef) *corev1.Pod { return owner("old", "a").Obj() },
			},
		},
		"pods that are alike": {
			pods: []*corev1.Pod{owner("a0", "a").Obj(), owner("a1", "a").Obj(), owner("a2", "a").Obj()}, want: "a0",
			why: "VolumeRestrictions: pod default/a0, which is planned too, uses the ReadWriteOncePod claim default/data",
		},
		"pods of two kinds": {
			pods: []*corev1.Pod{owner("a0", "a").Priority(1).Obj(), owner("b0", "b").Priority(2).Obj(), owner("c0", "c").Priority(1).Obj()}, want: "b0",
			why: "VolumeRestrictions: pod default/b0, which is planned too, uses the ReadWriteOncePod claim default/data",
		},
		"a pod that no node runs keeps it from none": {
			pods: []*corev1.Pod{owner("a0", "a").Priority(2).NodeSelector(map[string]string{"none": "such"}).Obj(), owner("b0", "b").Obj()}, want: "b0", why: "requires none in [such]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.planned(t, node)
			var placed []string
			for _, claim := range r.Plan.Claims {
				for _, m := range claim.Members {
					for _, ref := range m.Pods {
						placed = append(placed, ref.Name)
					}
				}
			}
			if got := strings.Join(placed, " "); got != c.want {
				t.Errorf("pods with a node: %q, want %q", got, c.want)
			}
			if (len(r.Plan.Unplaced) == 0) != (c.why == "") {
				t.Errorf("left out: %q", names(r.Plan.Unplaced))
			}
			for _, u := range r.Plan.Unplaced {
				if !strings.Contains(fmt.Sprint(u.Reasons), c.why) {
					t.Errorf("pods %v are left out because of %v, want %q", u.Pods, u.Reasons, c.why)
				}
				// As a rejection of the filters they would be tried again beside the plan, in vain.
				if code := u.Reasons[0].Code; strings.Contains(c.why, "uses") && code != "VolumeConflict" {
					t.Errorf("pods %v are left out with code %s", u.Pods, code)
				}
			}
		})
	}
}

// onceCase is pods that are planned in a cluster with the claim data.
type onceCase struct {
	pods   []*corev1.Pod
	source clusterview.Source
	// bound are on node n.
	bound []*corev1.Pod
	// want are the pods with a node, why is why others have none.
	want, why string
}

// planned plans the pods of the case, beside the node.
func (c *onceCase) planned(t *testing.T, node *corev1.Node) provision.Result {
	t.Helper()
	verifier, volumes := withClaim(t)
	classes := podclass.New(podclass.Needs{Volumes: volumes})
	for _, p := range c.pods {
		classes.Add(classes.Of(p, ""), catalog.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
	}
	src, cat := c.source, verifytest.Zones("z1")
	cat.InFlight = src.Catalog.InFlight
	src.Snapshot, src.Catalog = internalcache.NewSnapshot(c.bound, []*corev1.Node{node}), cat
	if src.Pod == nil {
		src.Pod = func(catalog.PodRef) *corev1.Pod { return nil }
	}
	p, err := provision.New(provision.Config{Verifier: verifier})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Provision(t.Context(), provision.Request{Classes: classes.List(), Cluster: src})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// withClaim returns a Verifier and Volumes of a cluster with the bound claim data, which is ReadWriteOncePod.
func withClaim(t *testing.T) (*verify.Verifier, *podclass.Volumes) {
	t.Helper()
	pv := &corev1.PersistentVolume{}
	pv.Name = "pv"
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}
	pvc := st.MakePersistentVolumeClaim().Namespace("default").Name("data").VolumeName("pv").Annotation("pv.kubernetes.io/bind-completed", "yes").
		AccessModes([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}).Obj()
	pvc.Status.Phase = corev1.ClaimBound
	var volumes *podclass.Volumes
	verifier := verifytest.New(t, func(cfg *verify.Config) {
		tracker := cfg.Client.(*fake.Clientset).Tracker()
		if err := tracker.Add(pv); err != nil {
			t.Fatal(err)
		}
		if err := tracker.Add(pvc); err != nil {
			t.Fatal(err)
		}
		volumes = podclass.NewVolumes(cfg.Informers)
	})
	return verifier, volumes
}
