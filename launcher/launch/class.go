package launch

import (
	"context"
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// classOf reads a claim's EC2NodeClass. why is the reason why the class cannot launch; the claim then fails, as in Karpenter. Where the class was
// edited and its status is still that of the older spec, it returns an error, so that the claim waits: an instance would have parts of both. A class
// that is not known to be ready or not is tried.
func (g *group) classOf(ctx context.Context, claim *karpv1.NodeClaim) (class *awsv1.EC2NodeClass, why string, err error) {
	if claim.Spec.NodeClassRef == nil {
		return nil, "spec.nodeClassRef is not set", nil
	}
	name := claim.Spec.NodeClassRef.Name
	class = &awsv1.EC2NodeClass{}
	if err := g.config.Client.Get(ctx, types.NamespacedName{Name: name}, class); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, fmt.Sprintf("EC2NodeClass %s does not exist", name), nil
		}
		return nil, "", fmt.Errorf("getting EC2NodeClass %s: %w", name, err)
	}
	if class.DeletionTimestamp != nil {
		return class, fmt.Sprintf("EC2NodeClass %s is being deleted", name), nil // Its status will not follow: the deletion counts as an edit.
	}
	for i := range class.Status.Conditions {
		c := &class.Status.Conditions[i]
		switch {
		case c.Type != status.ConditionReady:
		case c.ObservedGeneration != class.Generation:
			return nil, "", fmt.Errorf("reading EC2NodeClass %s: its status is of generation %d, and its spec of generation %d is not resolved yet",
				name, c.ObservedGeneration, class.Generation)
		case c.IsFalse():
			return class, fmt.Sprintf("EC2NodeClass %s is not Ready: %s", name, c.Message), nil
		}
	}
	return class, "", nil
}
