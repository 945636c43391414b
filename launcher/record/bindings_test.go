package record_test

import (
	"strings"
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

func TestBindingOf(t *testing.T) {
	claim := &karpv1.NodeClaim{}
	if _, ok, err := record.BindingOf(claim, "web-1"); ok || err != nil {
		t.Errorf("a claim that tells nothing: %t, %v", ok, err)
	}
	claim.Annotations = map[string]string{catalog.BindingsAnnotation: record.FormatBindings([]record.Bindings{
		{At: "launch", Rule: "HostNetwork", Why: "host", UIDs: []string{"proxy-1"}},
		{At: "ready", Rule: "Job", Why: "job", UIDs: []string{"web-0", "web-1"}},
	})}
	if b, ok, err := record.BindingOf(claim, "web-1"); !ok || err != nil || b.At != "ready" || b.Rule != "Job" || b.Why != "job" {
		t.Errorf("%+v, %t, %v", b, ok, err)
	}
	if _, ok, _ := record.BindingOf(claim, "other"); ok {
		t.Error("a pod of another UID is told of")
	}
	claim.Name, claim.Annotations[catalog.BindingsAnnotation] = "a", "{"
	if _, _, err := record.BindingOf(claim, "web-1"); err == nil || !strings.Contains(err.Error(), "NodeClaim a: annotation "+catalog.BindingsAnnotation) {
		t.Errorf("error %v", err)
	}
}
