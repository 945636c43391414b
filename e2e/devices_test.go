package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// draDriver is the DRA driver of the tests.
const draDriver = "gpu.e2e.slipway.dev"

// deviceTemplates are what the scheduler is configured with: two devices of model A on each of two instance types.
func deviceTemplates() []any {
	return []any{map[string]any{
		"instanceTypes": []string{"m6i.2xlarge", "m6i.4xlarge"}, "driver": draDriver,
		"devices": []any{map[string]any{"name": "gpu", "count": 2, "attributes": map[string]any{"model": map[string]any{"string": "A"}}}},
	}}
}

// claimTemplate creates the device class and a template of claims for one device of the model.
func (w *world) claimTemplate(name, model string) {
	w.t.Helper()
	of := func(expression string) []resourcev1.DeviceSelector {
		return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	class.Spec.Selectors = of(fmt.Sprintf("device.driver == %q", draDriver))
	if err := client.IgnoreAlreadyExists(w.client.Create(w.t.Context(), class)); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.IgnoreNotFound(w.client.Delete(ctx, class)); err != nil {
			w.t.Error(err)
		}
	})
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: w.name, Selectors: of(fmt.Sprintf("device.attributes[%q].model == %q", draDriver, model)),
	}}}
	w.create(template)
}

// claiming is a pod with a claim of the template, for nodes of the pool.
func (w *world) claiming(template, pool string) corev1.PodSpec {
	return w.podSpec("1", "1Gi", func(s *corev1.PodSpec) {
		s.NodeSelector[karpv1.NodePoolLabelKey] = pool
		s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		s.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	})
}

// publish creates the ResourceSlice of the node's devices, as a driver does.
func (w *world) publish(node, model string) {
	w.t.Helper()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpu"}}
	slice.Spec = resourcev1.ResourceSliceSpec{
		Driver: draDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}
	for _, name := range []string{"gpu-0", "gpu-1"} {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}},
		})
	}
	w.create(slice)
	w.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.IgnoreNotFound(w.client.Delete(ctx, slice)); err != nil {
			w.t.Error(err)
		}
	})
}

// unpublished awaits the one node of the pool, ready and not initialized for want of its driver's devices, and returns its claim.
func (w *world) unpublished(pool string) observe.Claim {
	w.t.Helper()
	var found observe.Claim
	w.await(w.t, "a node of "+pool+" that waits for its DRA driver", func() bool {
		list := w.claimsOf(pool)
		if len(list) != 1 {
			return false
		}
		found = list[0]
		c := found.Object.StatusConditions().Get(karpv1.ConditionTypeInitialized)
		return c != nil && c.Reason == "DRADriverPoolsNotPublished" && strings.Contains(c.Message, draDriver)
	})
	return found
}

// awaitSentence waits until a pod of the Deployment says why no node is launched for it.
func (w *world) awaitSentence(app, sentence string) {
	w.t.Helper()
	w.await(w.t, "a pod of "+app+" that says: "+sentence, func() bool {
		return slices.ContainsFunc(w.pods(), func(p observe.Pod) bool {
			c := conditions.Pod(p.Object, corev1.PodScheduled)
			return p.Object.Labels["app"] == app && p.Object.Spec.NodeName == "" && c != nil && strings.Contains(c.Message, sentence)
		})
	})
}

// Pods with resource claims get a node of a type that has the devices. The node is initialized once its driver has published them, and
// the scheduler allocates. What a driver published is known from then on: a type without the declared devices is launched once.
func TestResourceClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "claims")
	w.pool("claims", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large", "m6i.xlarge", "m6i.2xlarge") })
	w.pool("claims-wrong", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.4xlarge") })
	w.claimTemplate("a", "A")
	w.claimTemplate("z", "Z")
	w.deployment("trains", 2, w.claiming("a", "claims"))
	w.deployment("nothing", 1, w.claiming("z", "claims"))
	w.deployment("wrong", 1, w.claiming("a", "claims-wrong"))

	claim := w.unpublished("claims")
	if got := claim.Object.Annotations[karpv1.DRADriversAnnotationKey]; got != draDriver {
		t.Errorf("annotation %s: %q, want %q", karpv1.DRADriversAnnotationKey, got, draDriver)
	}
	if got := claim.Object.Labels[corev1.LabelInstanceTypeStable]; got != "m6i.2xlarge" {
		t.Errorf("an instance of type %s was launched, want m6i.2xlarge, which has the devices", got)
	}
	if n := w.running(); n != 0 {
		t.Errorf("%d pods run before the devices are published", n)
	}
	w.publish(claim.Object.Status.NodeName, "A")
	w.awaitRunning(2)
	var claims resourcev1.ResourceClaimList
	if err := w.client.List(t.Context(), &claims, client.InNamespace(w.name)); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for i := range claims.Items {
		if a := claims.Items[i].Status.Allocation; a != nil {
			used[a.Devices.Results[0].Pool+"/"+a.Devices.Results[0].Device] = true
		}
	}
	if node := claim.Object.Status.NodeName; len(used) != 2 || !used[node+"/gpu-0"] || !used[node+"/gpu-1"] {
		t.Errorf("allocated devices %v, want both of node %s", used, node)
	}

	// Its driver publishes another model than was declared.
	w.publish(w.unpublished("claims-wrong").Object.Status.NodeName, "B")
	w.awaitSentence("wrong", "devices that satisfy it")
	w.awaitSentence("nothing", "devices that satisfy it")
	for _, pool := range []string{"claims", "claims-wrong"} {
		if n := len(w.everClaimed(pool)); n != 1 {
			t.Errorf("%d NodeClaims of NodePool %s, want 1", n, pool)
		}
	}
	if bound := w.events("PreBound"); len(bound) > 0 {
		t.Errorf("pods with resource claims were bound by the launcher: %+v", bound)
	}
}
