package e2e_test

import (
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// deleteClass deletes an EC2NodeClass and waits until it is gone.
func (w *world) deleteClass(class *awsv1.EC2NodeClass) {
	w.t.Helper()
	if err := client.IgnoreNotFound(w.client.Delete(w.t.Context(), class)); err != nil {
		w.t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(class), &awsv1.EC2NodeClass{})
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Since(begin) > patience {
			w.t.Fatalf("EC2NodeClass %s is not gone after %s (%v)", class.Name, patience, err)
		}
	}
}

// givenProfile creates an instance profile of the user's own.
func givenProfile(t *testing.T, name string) {
	t.Helper()
	c := iam.New(iam.Options{
		Region: sandbox.Region, BaseEndpoint: awssdk.String(shared.AWSEndpoint()),
		Credentials: somebody(),
	})
	_, err := c.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &name})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: awssdk.String("KarpenterNodeRole-slipway")})
	if err != nil {
		t.Fatal(err)
	}
}

// In an isolated VPC a class that names its instance profile is resolved, launches nodes and is deleted without a call to IAM or the Price List
// API, which have no VPC endpoint.
func TestIsolatedVPCAlone(t *testing.T) {
	w := newWorld(t, "isolated")
	// Every test creates this class, which has a role, again.
	w.deleteClass(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	givenProfile(t, "isolated-nodes")
	w.restartWith(append(launcherSettings(featureGates), "isolatedVPC: true\n"...))
	before := len(shared.AWS().Calls())
	awaitReady(t)
	class := sandbox.NodeClass(w.name)
	class.Spec.AMISelectorTerms[0].Alias = newerImages
	class.Spec.Role, class.Spec.InstanceProfile = "", new("isolated-nodes")
	w.create(class)
	var pool *karpv1.NodePool
	w.pool(w.name, func(p *karpv1.NodePool) {
		pool = p
		onlyTypes(p, "m6i.large")
		p.Spec.Template.Spec.NodeClassRef.Name = class.Name
	})
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(1)
	w.removePool(pool)
	w.deleteClass(class)
	calls := shared.AWS().Calls()[before:]
	launches := 0
	for _, c := range calls {
		if c.AccessKey != sandbox.LauncherAccessKey {
			continue
		}
		if c.Service == "iam" || c.Service == "pricing" {
			t.Errorf("the launcher called %s of %s", c.Action, c.Service)
		}
		launches += c.Launched
	}
	if launches == 0 {
		t.Error("the launcher launched nothing")
	}
}
