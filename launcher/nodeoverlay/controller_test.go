package nodeoverlay_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/nodeoverlay"
)

// fixed is a cloud whose answer stays the same list, as AWS's does while nothing changes.
type fixed []catalog.InstanceType

// InstanceTypes implements nodeoverlay.Offers.
func (f fixed) InstanceTypes(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	return f, nil
}

// world is a cluster with one NodePool and its class.
type world struct {
	t      *testing.T
	api    client.Client
	events *record.FakeRecorder
	// unreadable makes lists of NodeOverlays fail.
	unreadable bool
	*nodeoverlay.Controller
}

func newWorld(t *testing.T, overlays ...client.Object) *world {
	t.Helper()
	w := &world{t: t, events: record.NewFakeRecorder(10)}
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web", Generation: 1}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
	w.api = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&v1alpha1.NodeOverlay{}).
		WithObjects(append(overlays, class, pool)...).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.NodeOverlayList); ok && w.unreadable {
				return errors.New("no answer")
			}
			return c.List(ctx, list, o...)
		}}).Build()
	list := []catalog.InstanceType{{
		Name: "m7g.large", Labels: map[string]string{corev1.LabelInstanceTypeStable: "m7g.large"},
		Offerings: []catalog.Offering{{Zone: "us-east-1a", CapacityType: "on-demand", Price: 0.08, Available: true}},
	}}
	var err error
	w.Controller, err = nodeoverlay.New(nodeoverlay.Config{
		Client: w.api, Offers: fixed(list), Guard: leadershiptest.Always{}, Events: w.events,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func priced(name, price string) *v1alpha1.NodeOverlay {
	o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	o.Spec.Price = &price
	return o
}

func (w *world) condition(name string) string {
	w.t.Helper()
	o := &v1alpha1.NodeOverlay{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
	c := o.StatusConditions().Get(v1alpha1.ConditionTypeValidationSucceeded)
	return string(c.GetStatus()) + " " + c.Reason
}

// One that is in conflict and one that is wrong say so, once, in condition and Event; the third one counts.
func TestVerdictsAreReported(t *testing.T) {
	bad := priced("c", "free")
	w := newWorld(t, priced("a", "2"), priced("b", "1"), bad)
	for range 2 {
		if _, err := w.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"a": "False Conflict", "b": "True ValidationSucceeded", "c": "False RuntimeValidation"} {
		if got := w.condition(name); got != want {
			t.Errorf("NodeOverlay %s: %q, want %q", name, got, want)
		}
	}
	if n := len(w.events.Events); n != 2 {
		t.Errorf("%d Events, want one of each that is not applied", n)
	}
	if list, ok := w.Overlaid(t.Context(), "web"); !ok || list[0].Offerings[0].Price != 1 {
		t.Errorf("the NodePool's list is %+v, %t", list, ok)
	}
}

// One whose requirements nothing meets is valid and says so, once, in condition and Event; the other one counts.
func TestUnmatchedIsReported(t *testing.T) {
	absent := priced("absent", "2")
	absent.Spec.Requirements = []v1alpha1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m7g.lagre"}}}
	w := newWorld(t, absent, priced("b", "1"))
	for range 2 {
		if _, err := w.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"absent": "True " + nodeoverlay.ReasonUnmatched, "b": "True ValidationSucceeded"} {
		if got := w.condition(name); got != want {
			t.Errorf("NodeOverlay %s: %q, want %q", name, got, want)
		}
	}
	if n := len(w.events.Events); n != 1 {
		t.Fatalf("%d Events, want one", n)
	}
	if e := <-w.events.Events; !strings.Contains(e, nodeoverlay.ReasonUnmatched) || !strings.Contains(e, "spec.requirements: no offering of any NodePool meets them") {
		t.Errorf("Event %q", e)
	}
	if list, ok := w.Overlaid(t.Context(), "web"); !ok || list[0].Offerings[0].Price != 1 {
		t.Errorf("the NodePool's list is %+v, %t", list, ok)
	}
}

// The same lists are returned until a spec changes. While NodeOverlays cannot be read, the last ones count.
func TestListsAreKept(t *testing.T) {
	overlay := priced("a", "2")
	w := newWorld(t, overlay)
	first, _ := w.Overlaid(t.Context(), "web")
	again, _ := w.Overlaid(t.Context(), "web")
	if &first[0] != &again[0] {
		t.Error("the list was made twice of the same NodeOverlays")
	}
	w.unreadable = true
	if kept, ok := w.Overlaid(t.Context(), "web"); !ok || kept[0].Offerings[0].Price != 2 {
		t.Errorf("while NodeOverlays cannot be read the list is %+v", kept)
	}
	if _, err := w.Reconcile(t.Context(), reconcile.Request{}); err == nil || !strings.Contains(err.Error(), "listing NodeOverlays") {
		t.Errorf("error %v, want one of listing NodeOverlays", err)
	}
	w.unreadable = false
	if err := w.api.Delete(t.Context(), overlay); err != nil {
		t.Fatal(err)
	}
	if list, ok := w.Overlaid(t.Context(), "web"); ok {
		t.Errorf("without NodeOverlays the list is %+v", list)
	}
}

// A cluster without the CRD is one without NodeOverlays, and is no error.
func TestServed(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	if served, err := nodeoverlay.Served(mapper); served || err != nil {
		t.Errorf("without the CRD: %t, %v", served, err)
	}
	mapper.Add(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1alpha1", Kind: "NodeOverlay"}, meta.RESTScopeRoot)
	if served, err := nodeoverlay.Served(mapper); !served || err != nil {
		t.Errorf("with the CRD: %t, %v", served, err)
	}
}

func TestSetupWithManager(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := newWorld(t).SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	if _, err := nodeoverlay.New(nodeoverlay.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}
