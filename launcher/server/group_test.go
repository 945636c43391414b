package server_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func inGroup(group string, c *api.Claim) *api.Claim {
	c.Group = group
	return c
}

// A group is recorded completely or not at all, whatever refuses a part of it.
func TestGroups(t *testing.T) {
	objects := append(ready("default", nil), ready("small", karpv1.Limits{corev1.ResourceCPU: resource.MustParse("3")})...)
	w := newWorld(t, objects...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-0", "default", "u0")}})
	<-w.handed
	noUID := planned("default-3", "default", "")
	pods := []*api.PodRef{{Namespace: "default", Name: "pod-u1", Uid: "u1"}}
	got := w.launch(&api.LaunchRequest{
		Claims: []*api.Claim{
			inGroup("limits", planned("default-1", "default")), inGroup("limits", planned("small-1", "small")), inGroup("limits", planned("small-2", "small")),
			inGroup("invalid", planned("default-2", "default")), inGroup("invalid", noUID),
			inGroup("placed", planned("default-4", "default")),
			inGroup("whole", planned("default-5", "default")), inGroup("whole", planned("default-6", "default")),
			planned("small-3", "small"), planned("default-7", "default"),
		},
		Placements: []*api.InFlightPlacement{
			{NodeClaim: "default-gone", Group: "placed", Pods: pods}, {NodeClaim: "default-0", Group: "invalid", Pods: pods},
		},
	})
	for name, want := range map[string]string{
		"default-1": "GangIncomplete", "small-1": "GangIncomplete", "small-2": "LimitsExceeded",
		"default-2": "GangIncomplete", "default-3": "InvalidPod", "default-0": "GangIncomplete",
		"default-4": "GangIncomplete", "default-gone": "NodeClaimNotFound",
		"default-5": "", "default-6": "", "small-3": "LimitsExceeded", "default-7": "",
	} {
		if r := got[name]; r.GetReason() != want || r.GetRecorded() != (want == "") {
			t.Errorf("%s: %v, want reason %q", name, r, want)
		}
	}
	if m := got["default-1"].GetMessage(); !strings.Contains(m, "claim default-1: small-2 of the same gang was not recorded: claim small-2: NodePool small: spec.limits.cpu") {
		t.Errorf("message %q", m)
	}
	var list karpv1.NodeClaimList
	if err := w.api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var stay []string
	for _, c := range list.Items {
		if c.DeletionTimestamp.IsZero() {
			stay = append(stay, c.Name)
		}
		// What may be taken back is not recorded with the ID of its launch: the launch must find out that it is deleted.
		mayGo := slices.Contains([]string{"default-1", "default-2", "default-4", "default-5", "default-6"}, c.Name)
		if c.Annotations[catalog.LaunchAnnotation] == "" != mayGo {
			t.Errorf("NodeClaim %s has launch ID %q", c.Name, c.Annotations[catalog.LaunchAnnotation])
		}
	}
	if strings.Join(stay, " ") != "default-0 default-5 default-6 default-7" {
		t.Errorf("NodeClaims %v", stay)
	}
	for range 3 {
		if name := <-w.handed; name != "default-5" && name != "default-6" && name != "default-7" {
			t.Errorf("handed on: %s", name)
		}
	}
	// The room that the limits leave is free again.
	if again := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("small-4", "small")}}); !again["small-4"].GetRecorded() {
		t.Errorf("after a group was refused: %v", again)
	}
}
