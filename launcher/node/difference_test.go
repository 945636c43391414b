package node_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/node"
)

// TestDifference: a patch requires of what it changes that it is as it was read, and says no word about what others write.
func TestDifference(t *testing.T) {
	have := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "7", Labels: map[string]string{"kept": "1", "x.io/old": "1", "tilde~": "1"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "ours", Effect: corev1.TaintEffectNoExecute}, {Key: "theirs", Effect: corev1.TaintEffectNoSchedule},
	}}}
	same, labelled, untainted, tainted, bare := have.DeepCopy(), have.DeepCopy(), have.DeepCopy(), have.DeepCopy(), have.DeepCopy()
	same.Status.NodeInfo.KernelVersion = "6"
	labelled.Labels = map[string]string{"kept": "1", "tilde~": "2", "x.io/ready": "true"}
	untainted.Spec.Taints = untainted.Spec.Taints[1:]
	tainted.Spec.Taints = append(tainted.Spec.Taints[1:], corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule})
	bare.Spec.Taints, bare.Spec.Unschedulable, bare.Finalizers = nil, true, []string{"x.io/guard"}
	const taints = `[{"effect":"NoExecute","key":"ours"},{"effect":"NoSchedule","key":"theirs"}]`
	for want, expected := range map[*corev1.Node]string{
		same: ``,
		labelled: `,{"op":"test","path":"/metadata/labels/tilde~0","value":"1"},{"op":"add","path":"/metadata/labels/tilde~0","value":"2"}` +
			`,{"op":"test","path":"/metadata/labels/x.io~1old","value":"1"},{"op":"remove","path":"/metadata/labels/x.io~1old","value":null}` +
			`,{"op":"test","path":"/metadata/labels/x.io~1ready","value":null},{"op":"add","path":"/metadata/labels/x.io~1ready","value":"true"}`,
		untainted: `,{"op":"test","path":"/spec/taints/0","value":{"effect":"NoExecute","key":"ours"}},{"op":"remove","path":"/spec/taints/0","value":null}`,
		tainted:   `,{"op":"test","path":"/spec/taints","value":` + taints + `},{"op":"add","path":"/spec/taints","value":[{"effect":"NoSchedule","key":"theirs"},{"effect":"NoSchedule","key":"x"}]}`,
		bare: `,{"op":"test","path":"/metadata/finalizers","value":null},{"op":"add","path":"/metadata/finalizers","value":["x.io/guard"]}` +
			`,{"op":"test","path":"/spec/taints/1","value":{"effect":"NoSchedule","key":"theirs"}},{"op":"remove","path":"/spec/taints/1","value":null}` +
			`,{"op":"test","path":"/spec/taints/0","value":{"effect":"NoExecute","key":"ours"}},{"op":"remove","path":"/spec/taints/0","value":null}` +
			`,{"op":"test","path":"/spec/unschedulable","value":null},{"op":"add","path":"/spec/unschedulable","value":true}`,
	} {
		var data []byte
		sent := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, patch client.Patch, _ ...client.PatchOption) (err error) {
				data, err = patch.Data(obj)
				return err
			},
		}).Build()
		if err := node.Patch(t.Context(), sent, have, want); err != nil {
			t.Fatal(err)
		}
		if expected = `[{"op":"test","path":"/metadata/uid","value":"1"}` + expected + `]`; string(data) != expected {
			t.Errorf("patch:\n%s\nexpected:\n%s", data, expected)
		}
	}
}

// A kubelet that writes its Node meanwhile is in nobody's way; another that changes the same list is.
func TestPatchBesideOthers(t *testing.T) {
	have := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "ours", Effect: corev1.TaintEffectNoExecute}, {Key: "theirs", Effect: corev1.TaintEffectNoSchedule},
	}}}
	api := fake.NewClientBuilder().WithObjects(have).Build()
	change := func(change func(current *corev1.Node)) {
		t.Helper()
		current := &corev1.Node{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(have), current); err != nil {
			t.Fatal(err)
		}
		if change(current); api.Update(t.Context(), current) != nil {
			t.Fatal("no update")
		}
	}
	change(func(current *corev1.Node) { current.Labels = map[string]string{"kubernetes.io/os": "linux"} })
	want := have.DeepCopy()
	want.Spec.Taints = want.Spec.Taints[1:]
	if err := node.Patch(t.Context(), api, have, want); err != nil || len(want.Spec.Taints) != 1 || want.Labels["kubernetes.io/os"] != "linux" {
		t.Fatalf("Node %+v, error %v", want, err)
	}
	change(func(current *corev1.Node) { current.Spec.Taints[0].Value = "x" })
	none := want.DeepCopy()
	if none.Spec.Taints = nil; node.Patch(t.Context(), api, want, none) == nil {
		t.Error("a taint that changed was removed")
	}
}

// A test that fails is a conflict, which is tried again with what is there now; a Node that is invalid is not.
func TestPatchErrors(t *testing.T) {
	failed := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "testing value /spec/taints failed", 0, false)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "a", field.ErrorList{field.Required(field.NewPath("spec"), "")})
	for given, conflict := range map[error]bool{failed: true, invalid: false, errors.New("no connection"): false, apierrors.NewConflict(corev1.Resource("nodes"), "a", nil): true} {
		refuses := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return given
			},
		}).Build()
		if err := node.Patch(t.Context(), refuses, &corev1.Node{}, &corev1.Node{}); err == nil || apierrors.IsConflict(err) != conflict {
			t.Errorf("%v became %v", given, err)
		}
	}
}

// A patch of a NodeClaim's status says nothing about its metadata, and the other way around; each is for the version that was read.
func TestClaimPatches(t *testing.T) {
	have := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", Annotations: map[string]string{"a": "1", "b": "1"}}}
	have.Status.ProviderID, have.Status.ImageID = "aws:///us-east-1a/i-1", "ami-1"
	want := have.DeepCopy()
	want.Annotations = map[string]string{"a": "2"}
	want.Status.ImageID, want.Status.NodeName = "", "n"
	for expected, patch := range map[string]client.Patch{
		`{"metadata":{"annotations":{"a":"2","b":null},"resourceVersion":"7"}}`:         node.ClaimMetadata(have),
		`{"metadata":{"resourceVersion":"7"},"status":{"imageID":null,"nodeName":"n"}}`: node.ClaimStatus(have),
	} {
		data, err := patch.Data(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != expected {
			t.Errorf("patch:\n%s\nexpected:\n%s", data, expected)
		}
		if _, err := patch.Data(&corev1.Node{}); err == nil {
			t.Error("a patch of a NodeClaim is one of a Node")
		}
	}
}
