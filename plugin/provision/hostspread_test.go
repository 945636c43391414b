package provision_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// A chart may give its DaemonSet and its Deployment one label. A spread of the Deployment over hosts by that label counts the DaemonSet's pod on each
// node, so one more pod fits on each. In a NodePool that the class may not use, there are hosts that it does not count.
func TestHostSpreadBesideDaemonSet(t *testing.T) {
	agent := &appsv1.DaemonSet{}
	agent.Namespace, agent.Name, agent.UID = "default", "agent", "agent"
	agent.Spec.Template.Labels = map[string]string{"app": "web"}
	agent.Spec.Template.Spec = verifytest.Pod("web").Toleration("other").Obj().Spec
	both := st.MakeLabelSelector().Label("app", "web").Obj()
	hosts := func(pod *st.PodWrapper) *st.PodWrapper {
		return pod.SpreadConstraint(1, corev1.LabelHostname, corev1.DoNotSchedule, both, nil, nil, nil, nil)
	}
	for name, pod := range map[string]*st.PodWrapper{
		"hosts":           hosts(verifytest.Pod("web")),
		"hosts and zones": hosts(verifytest.Pod("web")).SpreadConstraint(3, corev1.LabelTopologyZone, corev1.DoNotSchedule, both, nil, nil, nil, nil),
	} {
		t.Run(name, func(t *testing.T) {
			cat := verifytest.Zones("z1", "z2", "z3")
			cat.NodePools["a-first"] = catalog.NodePool{
				Name: "a-first", NodeClass: "default", Ready: true, Taints: []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}},
			}
			p, err := provision.New(provision.Config{Verifier: verifytest.New(t)})
			if err != nil {
				t.Fatal(err)
			}
			other := verifytest.Pod("other").Toleration("other").NodeSelector(map[string]string{"karpenter.sh/nodepool": "a-first"})
			pod.NodeSelector(map[string]string{"karpenter.sh/nodepool": "default"})
			r, err := p.Provision(t.Context(), provision.Request{
				Classes: []plan.Class{verifytest.Class("a-other", 1, other), verifytest.Class("web", 2, pod)},
				Cluster: clusterview.Source{
					Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: cat, DaemonSets: []*appsv1.DaemonSet{agent},
					Pod: func(catalog.PodRef) *corev1.Pod { return nil },
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Plan.Claims) != 3 || len(r.Plan.Unplaced) > 0 || len(r.Rejected) > 0 {
				t.Errorf("%d claims, unplaced %+v, rejected %d: %+v", len(r.Plan.Claims), r.Plan.Unplaced, len(r.Rejected), r.Rejected)
			}
		})
	}
}
