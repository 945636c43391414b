package join

import (
	"context"
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/aws/userdata"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/node"
)

// register gives a Node that is to be created the labels and taints with which its class's user data makes the kubelet register.
func register(ctx context.Context, cache client.Reader, claim *karpv1.NodeClaim, want *corev1.Node) error {
	if claim.Spec.NodeClassRef == nil {
		return nil
	}
	class := &awsv1.EC2NodeClass{}
	name := claim.Spec.NodeClassRef.Name
	if err := cache.Get(ctx, types.NamespacedName{Name: name}, class, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading EC2NodeClass %s: %w", name, err)
	}
	if class.Spec.UserData == nil {
		return nil // Also where the class is deleted.
	}
	sets := userdata.RegistrationOf(fromec2.Family(class), *class.Spec.UserData)
	node.AddRegistration(want, sets.Labels, sets.Taints)
	return nil
}
