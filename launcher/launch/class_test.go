package launch_test

import (
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// A NodeClaim of a class that is not Ready fails. What an older generation of the class was does not count.
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
		w.want(map[string]string{"default-a": "going", "default-b": "m7g.large us-east-1a"})
	})
}
