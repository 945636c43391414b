package launcher

import (
	"context"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// typesByClass returns a function that returns the instance types by EC2NodeClass, as the cloud last returned them.
func typesByClass(c client.Client, offers cloud.Cloud) func(context.Context) map[string][]catalog.InstanceType {
	return func(ctx context.Context) map[string][]catalog.InstanceType {
		out := map[string][]catalog.InstanceType{}
		var classes awsv1.EC2NodeClassList
		if err := c.List(ctx, &classes); err != nil {
			return out // The cache is not filled yet.
		}
		for i := range classes.Items {
			if types, err := offers.InstanceTypes(ctx, &classes.Items[i]); err == nil {
				out[classes.Items[i].Name] = types
			}
		}
		return out
	}
}
