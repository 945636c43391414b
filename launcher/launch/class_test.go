package launch_test

import (
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// A NodeClaim of a class that is not Ready fails. What an older generation of the class was does not count: the NodeClaim waits until the class is
// resolved.
func TestNodeClassThatIsNotReady(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		class := &awsv1.EC2NodeClass{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
			t.Fatal(err)
		}
		class.StatusConditions().SetFalse(status.ConditionReady, "Broken", "its role does not exist")
		if err := w.api.Update(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		w.record("default-a")
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "going"})
		if len(w.failed) != 1 || !strings.Contains(w.failed[0], "NodeClassNotReady: EC2NodeClass default is not Ready: its role does not exist") {
			t.Errorf("failed %v", w.failed)
		}
		class.Generation++
		if err := w.api.Update(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		w.record("default-b")
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "going", "default-b": "no instance"})
		class.StatusConditions().SetTrue(status.ConditionReady)
		if err := w.api.Update(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		w.settle(10 * time.Second)
		w.want(map[string]string{"default-a": "going", "default-b": "m7g.large us-east-1a"})
	})
}

// A class that was edited launches nothing from the status of its older spec: the launch template would have the new user data and the old AMI. The
// NodeClaim says what it waits for. If the class is not resolved in time, the NodeClaim ends with that.
func TestNodeClassThatWasEdited(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		class := &awsv1.EC2NodeClass{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
			t.Fatal(err)
		}
		class.StatusConditions().SetTrue(status.ConditionReady)
		class.Generation++
		if err := w.api.Update(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		w.record("default-a")
		w.settle(time.Minute)
		w.wantLaunches(0)
		const why = "EC2NodeClass default: its status is of generation 0, and its spec of generation 1 is not resolved yet"
		if got := w.claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched); !got.IsUnknown() || got.Reason != "LaunchPending" || !strings.Contains(got.Message, why) {
			t.Errorf("Launched %+v", got)
		}
		w.settle(5 * time.Minute)
		w.want(map[string]string{"default-a": "going"})
		w.wantLaunches(0)
		if len(w.failed) != 1 || !strings.HasPrefix(w.failed[0], "default-a LaunchTimeout: ") || !strings.Contains(w.failed[0], why) {
			t.Errorf("failed %v", w.failed)
		}
	})
}

// A class that is being deleted launches nothing, as in Karpenter. Nothing resolves it any more: the NodeClaim ends at once.
func TestNodeClassThatIsBeingDeleted(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		class := &awsv1.EC2NodeClass{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
			t.Fatal(err)
		}
		class.Finalizers = []string{awsv1.TerminationFinalizer}
		class.StatusConditions().SetTrue(status.ConditionReady)
		if err := w.api.Update(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Delete(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		w.record("default-a")
		w.settle(time.Second)
		w.wantLaunches(0)
		w.want(map[string]string{"default-a": "going"})
		if len(w.failed) != 1 || w.failed[0] != "default-a NodeClassNotReady: EC2NodeClass default is being deleted" {
			t.Errorf("failed %v", w.failed)
		}
	})
}
