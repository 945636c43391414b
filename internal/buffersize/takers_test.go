package buffersize_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/buffersize"
)

// The takers of reserved room are those that the annotations name, or else the pods of the workload. What matches all pods is refused.
func TestTakers(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for _, c := range []struct {
		name     string
		own      *metav1.LabelSelector
		selector string
		priority string
		want     string
		least    int32
		wrong    string
	}{
		{name: "the workload's pods", own: web, want: "app=web"},
		{name: "a selector", own: web, selector: "tier in (a, b),app", want: "app,tier in (a,b)"},
		{name: "a priority", own: web, priority: "1000", least: 1000},
		{name: "both", own: web, selector: "app=api", priority: "1", want: "app=api", least: 1},
		{name: "no labels", own: &metav1.LabelSelector{}, wrong: "selects pods without labels"},
		{name: "no selector", wrong: "selects pods without labels"},
		{name: "all pods", own: web, selector: " ", wrong: `metadata.annotations[slipway.dev/reserved-for]: " " selects pods without labels`},
		{name: "all but some", own: web, selector: "!app", wrong: "selects pods without labels"},
		{name: "no text of a selector", own: web, selector: "app in (", wrong: "slipway.dev/reserved-for"},
		{name: "a long selector", own: web, selector: "app in (" + strings.Repeat("a,", 3000) + "a)", wrong: "at most 4096 are read"},
		{name: "every priority", own: web, priority: "0", wrong: "want a number from 1"},
		{name: "no number", own: web, priority: "high", wrong: `"high" is no priority`},
		{name: "no priority of Kubernetes", own: web, priority: "99999999999", wrong: "is no priority"},
	} {
		cb := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		if c.selector != "" {
			cb.Annotations[buffersize.ReservedForAnnotation] = c.selector
		}
		if c.priority != "" {
			cb.Annotations[buffersize.ReservedForPriorityAnnotation] = c.priority
		}
		got, err := buffersize.TakersOf(cb, c.own)
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.name, err, c.wrong)
		case c.wrong == "" && (err != nil || got.Selector != c.want || (got.Priority == nil) != (c.least == 0) || got.Priority != nil && *got.Priority != c.least):
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// A strategy that slipway does not have keeps no room, and says which do.
func TestUnsupported(t *testing.T) {
	for strategy, want := range map[string]string{
		"": "", "buffer.x-k8s.io/active-capacity": "", "buffer.slipway.dev/reserved": "", "buffer.slipway.dev/standby": "",
		"buffer.slipway.dev/other": "buffer.slipway.dev/other is not supported, want buffer.x-k8s.io/active-capacity, buffer.slipway.dev/reserved, buffer.slipway.dev/one-shot or buffer.slipway.dev/standby",
	} {
		if got := buffersize.Unsupported(&autoscalingv1beta1.CapacityBufferSpec{ProvisioningStrategy: &strategy}); got != want {
			t.Errorf("%q: %q, want %q", strategy, got, want)
		}
	}
}
