package aws_test

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// An instance that has lost its tags is not among the cluster's any more, and may not be terminated. Its NodeClaim knows its ID: while it runs it does not
// count as terminated.
func TestInstanceThatLostItsTagsIsShownByItsID(t *testing.T) {
	server := startAWS(t)
	c, of := newCloud(t, server), class()
	var err error
	if of.Status, err = c.Resolve(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	types, err := c.InstanceTypes(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	o := types[0].Offerings[0]
	ids := untilLaunched(t, c, cloud.LaunchInput{
		LaunchID: "launch-1", Class: of, Claims: []*karpv1.NodeClaim{{}}, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"},
		Options: []cloud.Option{{InstanceType: types[0].Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}},
	})
	shown := func(sel cloud.Selector) bool {
		found, err := c.Instances(t.Context(), sel)
		if err != nil {
			t.Fatal(err)
		}
		return len(found) == 1 && found[0].ID == ids[0] && found[0].State == cloud.StateRunning
	}
	for deadline := time.Now().Add(2 * time.Minute); !shown(cloud.Selector{}); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the instance is not listed")
		}
	}
	somebody := awsConfig(t, server)
	somebody.Credentials = credentials.NewStaticCredentialsProvider("AKIASOMEBODY", "secret", "")
	if _, err := ec2.NewFromConfig(somebody).DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: ids}); err != nil {
		t.Fatal(err)
	}
	if _, refused := errors.AsType[*cloud.TerminationError](c.Terminate(t.Context(), ids)); !refused {
		t.Error("an instance without the cluster's tags may be terminated")
	}
	if !shown(cloud.Selector{IDs: ids}) || shown(cloud.Selector{}) {
		t.Errorf("shown by its ID: %t, in the list: %t", shown(cloud.Selector{IDs: ids}), shown(cloud.Selector{}))
	}
}
