package e2e_test

import (
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// ec2Client is a user's client of the sandbox's EC2.
func ec2Client() *ec2.Client {
	return ec2.New(ec2.Options{Region: sandbox.Region, BaseEndpoint: awssdk.String(shared.AWSEndpoint()), Credentials: somebody()})
}

// instancesOf returns the pending and running instances of a NodePool as EC2 describes them, in the order of their launch.
func instancesOf(t *testing.T, pool string) []ec2types.Instance {
	t.Helper()
	filter := func(name string, values ...string) ec2types.Filter {
		return ec2types.Filter{Name: awssdk.String(name), Values: values}
	}
	out, err := ec2Client().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
		Filters: []ec2types.Filter{filter("tag:"+karpv1.NodePoolLabelKey, pool), filter("instance-state-name", "pending", "running")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []ec2types.Instance
	for _, r := range out.Reservations {
		all = append(all, r.Instances...)
	}
	return all
}

// classOf creates an EC2NodeClass of the test's, like the shared one; change adapts it.
func (w *world) classOf(name string, change func(*awsv1.EC2NodeClassSpec)) {
	w.t.Helper()
	class := sandbox.NodeClass(name)
	if change != nil {
		change(&class.Spec)
	}
	w.create(class)
	w.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.IgnoreNotFound(w.client.Delete(ctx, class)); err != nil {
			w.t.Error(err)
		}
	})
}
