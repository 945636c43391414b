package nodeclass_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/drift"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/nodeclass"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Controller over an API server and an EC2 in memory.
type world struct {
	t       *testing.T
	api     client.Client
	ec2     *memory.Cloud
	subject *nodeclass.Controller
	events  []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, ec2: memory.New(memory.Config{})}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).WithStatusSubresource(&awsv1.EC2NodeClass{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	w.api = b.Build()
	var err error
	if w.subject, err = nodeclass.New(nodeclass.Config{Client: w.api, Cloud: w.ec2, Guard: leadershiptest.Always{}, Events: w, Ours: func(c *karpv1.NodeClaim) bool {
		return c.Name != "of-karpenter"
	}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// Eventf implements announce.EventRecorder.
func (w *world) Eventf(_ runtime.Object, kind, reason, format string, args ...any) {
	w.events = append(w.events, kind+" "+reason+": "+fmt.Sprintf(format, args...))
}

func (w *world) reconcile(name string) (*awsv1.EC2NodeClass, error) {
	w.t.Helper()
	key := client.ObjectKey{Name: name}
	_, err := w.subject.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
	class := &awsv1.EC2NodeClass{}
	if getErr := w.api.Get(w.t.Context(), key, class); getErr != nil {
		return nil, errors.Join(err, getErr)
	}
	return class, err
}

func (w *world) mustReconcile(name string) *awsv1.EC2NodeClass {
	w.t.Helper()
	class, err := w.reconcile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return class
}

func newClass(name string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
}

func TestResolved(t *testing.T) {
	w := newWorld(t, newClass("default"))
	class := w.mustReconcile("default")
	ready := class.StatusConditions().Get("Ready")
	if !ready.IsTrue() || ready.ObservedGeneration != 1 {
		t.Errorf("Ready %+v, want True at generation 1", ready)
	}
	if len(class.Status.AMIs) == 0 || class.Status.InstanceProfile == "" {
		t.Errorf("status was not taken over: %+v", class.Status)
	}
	if got := class.Annotations[awsv1.AnnotationEC2NodeClassHash]; got != newClass("default").Hash(nil) {
		t.Errorf("hash %q, want Karpenter's %q", got, newClass("default").Hash(nil))
	}
	if got := class.Annotations[awsv1.AnnotationEC2NodeClassHashVersion]; got != awsv1.EC2NodeClassHashVersion {
		t.Errorf("hash version %q, want %q", got, awsv1.EC2NodeClassHashVersion)
	}
}

// Hashes of an older version are renewed, the NodeClaims' first, so that nodes drift when the class changes after that. A drifted NodeClaim keeps its
// hash, and a running Karpenter's is left alone.
func TestHashesAreRenewed(t *testing.T) {
	old := map[string]string{awsv1.AnnotationEC2NodeClassHash: "1", awsv1.AnnotationEC2NodeClassHashVersion: "v0"}
	class := newClass("default")
	class.Annotations = maps.Clone(old)
	claim := func(name string) *karpv1.NodeClaim {
		out := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: maps.Clone(old)}}
		out.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
		return out
	}
	drifted, other, plain := claim("drifted"), claim("of-another-class"), claim("plain")
	drifted.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, drift.AMIDrift, "old")
	other.Spec.NodeClassRef.Name = "other"
	plain.Annotations = nil
	w := newWorld(t, class, claim("default-1"), drifted, other, plain, claim("of-karpenter"))
	class = w.mustReconcile("default")
	now := map[string]string{awsv1.AnnotationEC2NodeClassHash: class.Hash(nil), awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion}
	read := func(name string) *karpv1.NodeClaim {
		t.Helper()
		out := &karpv1.NodeClaim{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: name}, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, want := range map[string]map[string]string{
		"default-1": now, "of-another-class": old, "of-karpenter": old, "plain": nil,
		"drifted": {awsv1.AnnotationEC2NodeClassHash: "1", awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion},
	} {
		if diff := cmp.Diff(want, read(name).Annotations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	look := func() string {
		return drift.Decide(drift.Facts{Claim: read("default-1"), Pool: &karpv1.NodePool{}, Class: class}).Reason
	}
	class.Status.AMIs = nil // The claim has no labels to find its AMI by.
	if got := look(); got != "" {
		t.Errorf("drifts as launched: %s", got)
	}
	class.Spec.Role = "other"
	if err := w.api.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	class = w.mustReconcile("default")
	class.Status.AMIs = nil
	if got := look(); got != drift.NodeClassDrift {
		t.Errorf("after a change of the class: %q, want %s", got, drift.NodeClassDrift)
	}
}

// A class that cannot launch reports the reason and affects no other; once fixed it is ready again.
func TestOneBrokenClassStopsNoOther(t *testing.T) {
	w := newWorld(t, newClass("good"), newClass("bad"))
	w.ec2.BreakClass("bad", "SubnetsNotFound", "spec.subnetSelectorTerms match no subnet")
	bad := w.mustReconcile("bad").StatusConditions().Get(awsv1.ConditionTypeValidationSucceeded)
	if !bad.IsFalse() || bad.Message != "spec.subnetSelectorTerms match no subnet" {
		t.Errorf("bad: %+v", bad)
	}
	if class := w.mustReconcile("good"); !class.StatusConditions().IsTrue("Ready") {
		t.Errorf("good: %+v", class.Status.Conditions)
	}
	w.ec2.BreakClass("bad", "", "")
	if class := w.mustReconcile("bad"); !class.StatusConditions().IsTrue("Ready") {
		t.Errorf("repaired: %+v", class.Status.Conditions)
	}
}

// While AWS cannot be asked the last answer stays; without one the class is not ready, and not broken either.
func TestAWSUnreachable(t *testing.T) {
	w := newWorld(t, newClass("old"), newClass("new"))
	w.mustReconcile("old")
	w.ec2.Throttle(time.Hour)
	class, err := w.reconcile("old")
	if err == nil || !class.StatusConditions().IsTrue("Ready") {
		t.Errorf("old: error %v, conditions %+v", err, class.Status.Conditions)
	}
	class, err = w.reconcile("new")
	if ready := class.StatusConditions().Get("Ready"); err == nil || !ready.IsUnknown() {
		t.Errorf("new: error %v, Ready %+v", err, ready)
	}
}

// Conditions that did not change keep the time of their last change.
func TestTransitionTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newClass("default"))
		before := w.mustReconcile("default").StatusConditions().Get(awsv1.ConditionTypeAMIsReady).LastTransitionTime
		time.Sleep(time.Minute)
		w.ec2.BreakClass("default", "Broken", "broken")
		after := w.mustReconcile("default").StatusConditions()
		if got := after.Get(awsv1.ConditionTypeAMIsReady).LastTransitionTime; !got.Equal(&before) {
			t.Errorf("AMIsReady changed at %s, want %s", got, before)
		}
		if got := after.Get(awsv1.ConditionTypeValidationSucceeded).LastTransitionTime; !got.Time.Equal(time.Now()) {
			t.Errorf("ValidationSucceeded changed at %s, want %s", got, time.Now())
		}
	})
}

// A class waits for its NodeClaims, a running Karpenter's included, then lets AWS and itself go. NodeClaims of another provider's class of the same name do
// not hold it up.
func TestDeletion(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "of-karpenter"}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	automode := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "automode-1"}}
	automode.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}
	w := newWorld(t, newClass("default"), claim, automode)
	if err := w.api.Delete(t.Context(), w.mustReconcile("default")); err != nil {
		t.Fatal(err)
	}
	w.mustReconcile("default")
	if len(w.events) != 1 || w.events[0] != "Normal WaitingOnNodeClaimTermination: Waiting on NodeClaim termination for of-karpenter" {
		t.Errorf("events %q", w.events)
	}
	if err := w.api.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.ec2.Fail(memory.Release, memory.ErrThrottled)
	if class, err := w.reconcile("default"); err == nil || class == nil {
		t.Errorf("the class went although AWS still holds something for it: %v", err)
	}
	if class, err := w.reconcile("default"); class != nil {
		t.Errorf("the class is still there: %v", err)
	}
	if got := w.ec2.Calls(memory.Release); got != 2 {
		t.Errorf("%d calls of Release, want 2", got)
	}
}
