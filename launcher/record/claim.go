package record

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
)

// InvalidError means that a claim of a Launch request cannot be recorded.
type InvalidError struct {
	// Claim is its name, Field the path of the invalid field.
	Claim, Field string
	// Reason is one CamelCase word, Message the expected value.
	Reason, Message string
}

// Error returns a text that names claim and field.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("claim %s: %s: %s", e.Claim, e.Field, e.Message)
}

// AsInvalid returns the InvalidError in err, if there is one.
func AsInvalid(err error) (*InvalidError, bool) {
	var e *InvalidError
	ok := errors.As(err, &e)
	return e, ok
}

// maxInstanceTypes is the maximum number of types of a claim, as Karpenter sends them to CreateFleet.
const maxInstanceTypes = 60

// NewNodeClaim returns the NodeClaim that records a claim of the plan: the NodePool's template narrowed to the plan's decisions. It returns
// an InvalidError if the claim cannot be recorded.
func NewNodeClaim(claim *api.Claim, pool *karpv1.NodePool, class *awsv1.EC2NodeClass) (*karpv1.NodeClaim, error) {
	if err := validate(claim); err != nil {
		return nil, err
	}
	out := ofTemplate(claim.GetName(), pool, class)
	annotate(out, claim, pool)
	out.Labels = merge(out.Labels, singleValues(claim.GetRequirements()), ours(pool, class))
	requests, err := quantities(claim.GetRequests())
	if err != nil {
		return nil, &InvalidError{Claim: claim.GetName(), Field: "requests", Reason: "InvalidQuantity", Message: err.Error()}
	}
	out.Spec.Requirements = requirements(claim.GetRequirements())
	out.Spec.Resources = karpv1.ResourceRequirements{Requests: requests}
	return out, nil
}

// ofTemplate returns a NodeClaim of the NodePool's template, with the template's requirements. As in Karpenter, a well-known label of the template is both a
// requirement and a label of the NodeClaim.
func ofTemplate(name string, pool *karpv1.NodePool, class *awsv1.EC2NodeClass) *karpv1.NodeClaim {
	pool = pool.DeepCopy()
	of := pool.Spec.Template
	out := &karpv1.NodeClaim{}
	out.Name, out.Labels = name, merge(of.Labels, ours(pool, class))
	out.Annotations = merge(of.Annotations, map[string]string{
		karpv1.NodePoolHashAnnotationKey:        pool.Hash(),
		karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
		awsv1.AnnotationEC2NodeClassHash:        class.Annotations[awsv1.AnnotationEC2NodeClassHash],
		awsv1.AnnotationEC2NodeClassHashVersion: class.Annotations[awsv1.AnnotationEC2NodeClassHashVersion],
	})
	out.Finalizers = []string{karpv1.TerminationFinalizer}
	out.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: pool.Name, UID: pool.UID, BlockOwnerDeletion: new(true),
	}}
	out.Spec = karpv1.NodeClaimSpec{
		Taints:                 of.Spec.Taints,
		StartupTaints:          of.Spec.StartupTaints,
		Requirements:           template.Requirements(pool),
		NodeClassRef:           of.Spec.NodeClassRef,
		TerminationGracePeriod: of.Spec.TerminationGracePeriod,
		ExpireAfter:            of.Spec.ExpireAfter,
	}
	return out
}

// ours are the labels of every NodeClaim of a NodePool.
func ours(pool *karpv1.NodePool, class *awsv1.EC2NodeClass) map[string]string {
	return map[string]string{karpv1.NodePoolLabelKey: pool.Name, awsv1.LabelNodeClass: class.Name}
}

func validate(claim *api.Claim) error {
	invalid := func(field, reason, message string) error {
		return &InvalidError{Claim: claim.GetName(), Field: field, Reason: reason, Message: message}
	}
	if msgs := validation.IsDNS1123Subdomain(claim.GetName()); len(msgs) > 0 {
		return invalid("name", "InvalidName", strings.Join(msgs, "; "))
	}
	if n := len(claim.GetInstanceTypes()); n == 0 || n > maxInstanceTypes {
		return invalid("instance_types", "InvalidInstanceTypes", fmt.Sprintf("1 to %d instance types, got %d", maxInstanceTypes, n))
	}
	if n := len(claim.GetPods()); n > catalog.MaxPromised {
		return tooManyPods(claim.GetName(), n)
	}
	for i, pod := range claim.GetPods() {
		if pod.GetUid() == "" {
			return invalid(fmt.Sprintf("pods[%d].uid", i), "InvalidPod", "a UID is required")
		}
	}
	return nil
}

func annotate(out *karpv1.NodeClaim, claim *api.Claim, pool *karpv1.NodePool) {
	out.Annotations = merge(out.Annotations, map[string]string{
		catalog.InstanceTypesAnnotation: strings.Join(claim.GetInstanceTypes(), ","),
		catalog.PodsAnnotation:          catalog.FormatPods(podsOf(claim.GetPods())),

		karpv1.NodeClaimMinValuesRelaxedAnnotationKey: strconv.FormatBool(relaxed(claim, pool)),
	})
	if len(claim.GetPods()) > 0 {
		out.Annotations[catalog.ForPodsAnnotation] = "true"
	}
	if e := claim.GetExpected(); e != nil {
		out.Annotations[catalog.ExpectedAnnotation] = FormatExpected(e.GetInstanceType(), e.GetZone(), e.GetCapacityType(), e.GetPrice())
	}
	if e := claim.GetExpected(); e.GetCost() != nil {
		out.Annotations[catalog.CostAnnotation] = catalog.FormatCost(CostOf(e))
	}
	if name := claim.GetExpected().GetCoveredBy(); name != "" {
		out.Annotations[catalog.CoveredByAnnotation] = name
	}
	if why := claim.GetExpected().GetPassedOver(); why != "" {
		out.Annotations[catalog.PassedOverAnnotation] = why
	}
	if use, ok := pool.Annotations[catalog.BurstUseAnnotation]; ok {
		out.Annotations[catalog.BurstUseAnnotation] = use
	}
	if drivers := claim.GetDraDrivers(); len(drivers) > 0 {
		out.Annotations[karpv1.DRADriversAnnotationKey] = strings.Join(drivers, ",")
	}
	if buffer := claim.GetStandby(); buffer != "" {
		out.Annotations[catalog.StandbyAnnotation] = buffer
	}
	if nodes := claim.GetReplaces(); len(nodes) > 0 {
		out.Annotations[catalog.ReplacesAnnotation] = strings.Join(nodes, ",")
	}
}

// CostOf returns the parts of an expected node's price; the zero value where the plan has none.
func CostOf(e *api.Expected) catalog.Cost {
	cost := e.GetCost()
	return catalog.Cost{
		Instance: cost.GetInstance(), Volumes: cost.GetVolumes(), PublicIPv4: cost.GetPublicIpv4(), Burst: cost.GetBurst(), Declared: cost.GetDeclared(),
		Interruptions: cost.GetInterruptions(),
	}
}

// Replaces returns the names of the terminating nodes whose pods the NodeClaim was launched for; none for pending pods.
func Replaces(claim *karpv1.NodeClaim) []string {
	if text := claim.Annotations[catalog.ReplacesAnnotation]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// relaxed reports whether the plan keeps fewer of a key's values than the NodePool's minValues.
func relaxed(claim *api.Claim, pool *karpv1.NodePool) bool {
	kept := map[string]int{}
	for _, r := range claim.GetRequirements() {
		kept[r.GetKey()] = max(kept[r.GetKey()], int(r.GetMinValues()))
	}
	return slices.ContainsFunc(pool.Spec.Template.Spec.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool {
		return r.MinValues != nil && kept[catalog.NormalKey(r.Key)] < *r.MinValues
	})
}

// FormatExpected returns the value of catalog.ExpectedAnnotation; price in USD per hour, which is rounded to millionths (catalog.Micro).
func FormatExpected(instanceType, zone, capacityType string, price float64) string {
	return fmt.Sprintf("%s/%s/%s/%.6f", instanceType, zone, capacityType, price)
}

// singleValues returns the labels that follow from requirements with one value: the node has them whatever EC2 picks.
func singleValues(list []*api.Requirement) map[string]string {
	out := map[string]string{}
	for _, r := range list {
		if r.GetOperator() == string(corev1.NodeSelectorOpIn) && len(r.GetValues()) == 1 {
			out[r.GetKey()] = r.GetValues()[0]
		}
	}
	return out
}

func requirements(list []*api.Requirement) []karpv1.NodeSelectorRequirementWithMinValues {
	out := make([]karpv1.NodeSelectorRequirementWithMinValues, 0, len(list))
	for _, r := range list {
		k := karpv1.NodeSelectorRequirementWithMinValues{
			Key: r.GetKey(), Operator: corev1.NodeSelectorOperator(r.GetOperator()), Values: r.GetValues(),
		}
		if r.GetMinValues() > 0 {
			k.MinValues = new(int(r.GetMinValues()))
		}
		out = append(out, k)
	}
	slices.SortStableFunc(out, func(a, b karpv1.NodeSelectorRequirementWithMinValues) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

func quantities(in map[string]string) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for name, text := range in {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no quantity: %w", name, text, err)
		}
		out[corev1.ResourceName(name)] = q
	}
	return out, nil
}

func merge(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}
