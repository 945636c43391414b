package handover

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/karpenter-provider-aws/pkg/apis"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Label is the label of NodePools that are handed over: the admission policies read it.
const Label = "slipway.dev/handover"

// The admission policies, by the NodeClaims that each of them refuses everyone. A dry run of their creation proves that a policy is in force,
// at the API server that answers.
const (
	probeObjects = "slipway-handover-objects-probe"
	probePools   = "slipway-handover-pools-probe"
)

// kept matches what the policies report of themselves: the user that they keep away.
var kept = regexp.MustCompile(`the handover policy keeps (system:serviceaccount:[a-z0-9-]+:[a-z0-9.-]+) from `)

// prove returns an error unless both policies are in force for the NodePool, against a user that is a Karpenter.
func prove(ctx context.Context, api client.Client, pool string, karpenter func(user string) bool) error {
	for _, name := range []string{probeObjects, probePools} {
		claim := &karpv1.NodeClaim{}
		claim.Name, claim.Labels = name, map[string]string{karpv1.NodePoolLabelKey: pool}
		claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: apis.Group, Kind: "EC2NodeClass", Name: name}
		claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
		err := api.Create(ctx, claim, &client.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		policy := strings.TrimSuffix(name, "-probe")
		if err == nil {
			return fmt.Errorf("checking ValidatingAdmissionPolicy %s for NodePool %s: it is not in force", policy, pool)
		}
		found := kept.FindStringSubmatch(err.Error())
		if found == nil {
			return fmt.Errorf("checking ValidatingAdmissionPolicy %s for NodePool %s: %w", policy, pool, err)
		}
		if !karpenter(found[1]) {
			return fmt.Errorf("checking ValidatingAdmissionPolicy %s for NodePool %s: it keeps %s away, which may not create NodeClaims: want Karpenter's service account",
				policy, pool, found[1])
		}
	}
	return nil
}
