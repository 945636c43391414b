package record_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// annotationBytes is what the API server allows for all annotations of an object (TotalAnnotationSizeLimitB).
const annotationBytes = 256 << 10

// mostPods is the most that any instance type has addresses for: 15 network interfaces of 50 addresses.
const mostPods = 15*(50-1) + 2

// refs are pods with names as long as the API server accepts.
func refs(n int) []*api.PodRef {
	out := make([]*api.PodRef, n)
	for i := range out {
		out[i] = &api.PodRef{
			Namespace: fmt.Sprintf("%063d", i), Name: fmt.Sprintf("%0253d", i), Uid: fmt.Sprintf("00000000-0000-0000-0000-%012d", i),
		}
	}
	return out
}

// bindings is the record of pods each of which has a volume of another name, for every rule that names one.
func bindings(pods []*api.PodRef, rules int) string {
	var list []record.Bindings
	for i, p := range pods {
		why := fmt.Sprintf("volume %0253d %s", i, strings.Repeat("long ", 1000))
		list = record.AddBinding(list, record.Bindings{At: "scheduler", Rule: fmt.Sprintf("TheLongestRule%02d", i%rules), Why: why}, p.GetUid())
	}
	return record.FormatBindings(list)
}

// As many pods as a node can have, with the longest names, fit into the annotations of a NodeClaim with room for those of users.
func TestAnnotationsOfAFullNode(t *testing.T) {
	for _, n := range []int{600, mostPods, catalog.MaxPromised} {
		in := planned()
		in.Pods = refs(n)
		claim, err := record.NewNodeClaim(in, pool(), class())
		if err != nil {
			t.Fatal(err)
		}
		claim.Annotations[catalog.BindingsAnnotation] = bindings(in.Pods, 16)
		total := 0
		for key, value := range claim.Annotations {
			total += len(key) + len(value)
		}
		t.Logf("%d pods: %d bytes of %s, %d bytes of %s, %d bytes in all", n, len(claim.Annotations[catalog.PodsAnnotation]), catalog.PodsAnnotation,
			len(claim.Annotations[catalog.BindingsAnnotation]), catalog.BindingsAnnotation, total)
		if total > annotationBytes/2 {
			t.Errorf("%d pods: annotations of %d bytes, more than half of %d", n, total, annotationBytes)
		}
		for _, p := range in.Pods {
			if _, ok, err := record.BindingOf(claim, "00000000-0000-0000-0000-000000000000"); !ok || err != nil {
				t.Fatalf("pod %s: %t, %v", p.GetUid(), ok, err)
			}
		}
	}
	if got := bindings(refs(3), 1); strings.Count(got, "why") != 3 {
		t.Errorf("few reasons are not merged: %s", got)
	}
}

// A claim with more pods than can be promised is refused. More pods on a node in flight take the places of those that are gone.
func TestTooManyPods(t *testing.T) {
	in := planned()
	in.Pods = refs(catalog.MaxPromised + 1)
	_, err := record.NewNodeClaim(in, pool(), class())
	if invalid, ok := record.AsInvalid(err); !ok || invalid.Reason != "TooManyPods" || !strings.Contains(err.Error(), "at most 1000 pods") {
		t.Errorf("error %v", err)
	}
	claim := &karpv1.NodeClaim{}
	claim.Name = "default-1"
	add := func(pods []*api.PodRef, gone func(string) bool) error {
		text, err := record.AddPods(claim, pods, gone)
		if err == nil {
			claim.Annotations = map[string]string{catalog.PodsAnnotation: text}
		}
		return err
	}
	none := func(string) bool { return false }
	if err := add(in.Pods[:catalog.MaxPromised], none); err != nil {
		t.Fatal(err)
	}
	err = add(in.Pods, none)
	if refused := (*record.InvalidError)(nil); !errors.As(err, &refused) || refused.Claim != "default-1" {
		t.Errorf("error %v", err)
	}
	first := in.Pods[0].GetUid()
	if err := add(in.Pods, func(uid string) bool { return uid == first }); err != nil {
		t.Fatal(err)
	}
	pods, err := record.Pods(claim)
	if err != nil || len(pods) != catalog.MaxPromised || pods[0].UID == first || pods[len(pods)-1].UID != in.Pods[catalog.MaxPromised].GetUid() {
		t.Errorf("%d pods, the first %s, error %v", len(pods), pods[0].UID, err)
	}
}
