package drift

import (
	"context"
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
)

// renewals is how many NodeClaims are written at once when the version of a hash changes.
const renewals = 8

// Hash is the hash of a NodePool's template or of an EC2NodeClass's spec, as annotations keep it.
type Hash struct {
	keys stamps
	// Value is the hash, Version the version of its computation.
	Value, Version string
}

// PoolHash returns the hash of a NodePool.
func PoolHash(pool *karpv1.NodePool) Hash {
	return Hash{poolStamps(), pool.Hash(), karpv1.NodePoolHashVersion}
}

// ClassHash returns the hash of an EC2NodeClass. The cluster's CA bundle is part of it.
func ClassHash(class *awsv1.EC2NodeClass, caBundle *string) Hash {
	return Hash{classStamps(), class.Hash(caBundle), awsv1.EC2NodeClassHashVersion}
}

// Annotate writes the hash and its version into an object's annotations.
func (h Hash) Annotate(o *metav1.ObjectMeta) {
	metav1.SetMetaDataAnnotation(o, h.keys.hash, h.Value)
	metav1.SetMetaDataAnnotation(o, h.keys.version, h.Version)
}

// Renew writes the version into the NodeClaims that have a hash of another version: those hashes are not comparable, and the nodes would never drift.
// A claim gets the value as well, unless it has drifted, as in Karpenter (designs/drift-hash-versioning.md). The claims are not changed. The hash
// must be written into its own object after that.
func (h Hash) Renew(ctx context.Context, to client.Client, claims []*karpv1.NodeClaim) error {
	var group errgroup.Group // A claim that cannot be written stops no other.
	group.SetLimit(renewals)
	for _, have := range claims {
		if have.DeletionTimestamp != nil || have.Annotations[h.keys.hash] == "" || have.Annotations[h.keys.version] == h.Version {
			continue
		}
		group.Go(func() error {
			claim := have.DeepCopy()
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, h.keys.version, h.Version)
			if !conditions.ClaimIs(claim, karpv1.ConditionTypeDrifted) {
				metav1.SetMetaDataAnnotation(&claim.ObjectMeta, h.keys.hash, h.Value)
			}
			if err := to.Patch(ctx, claim, nodeobj.ClaimMetadata(have)); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("renewing %s of NodeClaim %s: %w", h.keys.hash, claim.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}
