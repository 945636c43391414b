package provision_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
	"github.com/slipway-k8s/slipway/plugin/verify"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// A profile's addedAffinity excludes the NodePool with the cheaper offerings, of which there are more than rounds. The pods get a node of
// the other one in the first round.
func TestAddedAffinity(t *testing.T) {
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "karpenter.sh/nodepool", Operator: corev1.NodeSelectorOpIn, Values: []string{"team-a"}}},
	}}}
	var profiles []config.KubeSchedulerProfile
	verifier := verifytest.New(t, func(cfg *verify.Config) {
		for i := range cfg.Profiles {
			for _, c := range cfg.Profiles[i].PluginConfig {
				if args, ok := c.Args.(*config.NodeAffinityArgs); ok {
					args.AddedAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
				}
			}
		}
		profiles = cfg.Profiles
	})
	classes := podclass.New(podclass.Needs{Affinity: podclass.AddedAffinity(profiles)})
	pod := verifytest.Class("a", 1, verifytest.Pod("a")).Pod
	classes.Add(classes.Of(pod, ""), catalog.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
	cat := verifytest.Zones("z1", "z2")
	template := cat.InstanceTypes["default"][0]
	cat.NodePools["team-a"] = catalog.NodePool{Name: "team-a", NodeClass: "team-a", Ready: true}
	for i := range 25 {
		for class, extra := range map[string]float64{"default": 0, "team-a": 1} {
			it := template
			it.Name, it.Offerings = fmt.Sprintf("m7g.%dxlarge", i), nil
			for _, o := range template.Offerings {
				o.Price += extra + float64(i)/100
				it.Offerings = append(it.Offerings, o)
			}
			cat.InstanceTypes[class] = append(cat.InstanceTypes[class], it)
		}
	}
	p, err := provision.New(provision.Config{Verifier: verifier})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Provision(t.Context(), provision.Request{Classes: classes.List(), Cluster: clusterview.Source{
		Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if claims := r.Plan.Claims; len(claims) != 1 || claims[0].NodePool != "team-a" || claims[0].Expected.InstanceType != "m7g.0xlarge" || r.Rounds != 1 {
		t.Errorf("after %d rounds claims %+v and left out %q, want one claim of team-a at once", r.Rounds, claims, names(r.Plan.Unplaced))
	}
}
