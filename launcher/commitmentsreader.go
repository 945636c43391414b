package launcher

import (
	"context"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/commitments"
)

// commitments returns the reader of Savings Plans and Reserved Instances.
func (l *Launcher) commitments(late *lateServer) (*commitments.Commitments, error) {
	name, err := l.config.Settings.commitmentsConfigMap()
	if err != nil {
		return nil, err
	}
	return commitments.New(commitments.Config{
		ConfigMap: name, Reader: l.manager.GetAPIReader(), Client: l.manager.GetClient(), Events: l.recorders.slipway, Leading: l.config.Gate.Open,
		Types: l.instanceTypes, Changed: late.recheck, Registerer: l.registerer,
	})
}

// instanceTypes returns the instance types by class, as the cloud last returned them.
func (l *Launcher) instanceTypes(ctx context.Context) map[string][]catalog.InstanceType {
	out := map[string][]catalog.InstanceType{}
	var classes awsv1.EC2NodeClassList
	if err := l.manager.GetClient().List(ctx, &classes); err != nil {
		return out // The cache is not filled yet.
	}
	for i := range classes.Items {
		if types, err := l.config.Cloud.InstanceTypes(ctx, &classes.Items[i]); err == nil {
			out[classes.Items[i].Name] = types
		}
	}
	return out
}
