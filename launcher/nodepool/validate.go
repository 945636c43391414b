package nodepool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Validate returns the errors of a NodePool that its CRD does not detect, each with its field. fixed allows spec.replicas.
func Validate(ctx context.Context, pool *karpv1.NodePool, fixed bool) field.ErrorList {
	var out field.ErrorList
	spec, template := field.NewPath("spec"), field.NewPath("spec", "template")
	if why := pool.Annotations[catalog.UnreadableAnnotation]; why != "" {
		out = append(out, field.Invalid(spec, pool.Name, why))
	}
	out = append(out, validateRequirements(template, pool)...)
	// Karpenter's own checks report the same errors of requirements, less clearly.
	if err := pool.RuntimeValidate(ctx); err != nil && len(out) == 0 {
		out = append(out, field.Invalid(template, pool.Name, err.Error()))
	}
	out = append(out, validateNodeClassRef(template.Child("spec", "nodeClassRef"), pool.Spec.Template.Spec.NodeClassRef)...)
	for i, b := range pool.Spec.Disruption.Budgets {
		out = append(out, validateBudget(spec.Child("disruption", "budgets").Index(i), b)...)
	}
	out = append(out, validateLimits(spec.Child("limits"), pool.Spec.Limits)...)
	if pool.Spec.Replicas != nil && !fixed {
		out = append(out, field.Forbidden(spec.Child("replicas"), "the feature gate StaticCapacity is off"))
	}
	return out
}

func validateNodeClassRef(path *field.Path, ref *karpv1.NodeClassReference) field.ErrorList {
	switch {
	case ref == nil:
		return field.ErrorList{field.Required(path, "an EC2NodeClass is needed")}
	case ref.Group != awsapis.Group || ref.Kind != "EC2NodeClass":
		return field.ErrorList{field.NotSupported(path, ref.Group+"/"+ref.Kind, []string{awsapis.Group + "/EC2NodeClass"})}
	case ref.Name == "":
		return field.ErrorList{field.Required(path.Child("name"), "an EC2NodeClass is needed")}
	}
	return nil
}

// validateRequirements checks that each requirement can be parsed and that, together with the labels, they allow a node.
func validateRequirements(template *field.Path, pool *karpv1.NodePool) field.ErrorList {
	var out field.ErrorList
	path := template.Child("spec", "requirements")
	var list []catalog.Requirement
	for i, r := range pool.Spec.Template.Spec.Requirements {
		if !slices.Contains(operators(), r.Operator) {
			out = append(out, field.NotSupported(path.Index(i).Child("operator"), r.Operator, operators()))
			continue
		}
		one := catalog.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values}
		if _, err := catalog.NewRequirements([]catalog.Requirement{one}); err != nil {
			out = append(out, field.Invalid(path.Index(i), r.Key, err.Error()))
			continue
		}
		if r.MinValues != nil && r.Operator == corev1.NodeSelectorOpIn && *r.MinValues > len(r.Values) {
			out = append(out, field.Invalid(path.Index(i).Child("minValues"), *r.MinValues,
				fmt.Sprintf("more than are listed: %d", len(r.Values))))
		}
		list = append(list, one)
	}
	all, err := catalog.NewRequirements(list)
	if err != nil || len(out) > 0 {
		return out
	}
	for k, v := range pool.Spec.Template.Labels {
		all = all.Intersect(catalog.FromLabels(map[string]string{catalog.NormalKey(k): v}))
	}
	if key, conflict := all.Conflict(); conflict {
		out = append(out, field.Invalid(path, key, "no value is left that all requirements and labels allow"))
	}
	return out
}

// validateLimits rejects limits that no launch could keep.
func validateLimits(path *field.Path, limits karpv1.Limits) field.ErrorList {
	var out field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if q := limits[name]; q.Sign() < 0 {
			out = append(out, field.Invalid(path.Key(string(name)), q.String(), "a limit is not negative"))
		}
	}
	if err := catalog.UnknownLimits(corev1.ResourceList(limits)); err != nil {
		out = append(out, field.Invalid(path, len(limits), err.Error()))
	}
	return out
}

func operators() []corev1.NodeSelectorOperator {
	return []corev1.NodeSelectorOperator{
		corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
		corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, catalog.OperatorGte, catalog.OperatorLte,
	}
}

func validateBudget(path *field.Path, b karpv1.Budget) field.ErrorList {
	var out field.ErrorList
	if _, err := disruption.BudgetShare(b.Nodes, 1); err != nil {
		out = append(out, field.Invalid(path.Child("nodes"), b.Nodes, err.Error()))
	}
	if (b.Schedule == nil) != (b.Duration == nil) {
		out = append(out, field.Invalid(path, b.Nodes, "schedule and duration must be set together"))
	}
	if b.Schedule != nil {
		if _, err := cron.ParseStandard("TZ=UTC " + *b.Schedule); err != nil {
			out = append(out, field.Invalid(path.Child("schedule"), *b.Schedule, err.Error()))
		}
	}
	return out
}

// Usage adds up the capacity of a pool's NodeClaims; their number is the resource `nodes`. usd returns what each costs, in millionths of USD per hour, for
// catalog.LimitUSD; nil leaves that out.
func Usage(claims []*karpv1.NodeClaim, usd func(*karpv1.NodeClaim) int64) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range counted() {
		out[name] = zero(name)
	}
	for _, c := range claims {
		for name, q := range c.Status.Capacity {
			sum := out[name]
			sum.Add(q)
			out[name] = sum
		}
	}
	nodes := out["nodes"]
	nodes.Set(int64(len(claims)))
	out["nodes"] = nodes
	if usd != nil {
		micro := int64(0)
		for _, c := range claims {
			micro += usd(c)
		}
		out[catalog.LimitUSD] = catalog.USDQuantity(micro)
	}
	return out
}

// counted returns the resources whose usage is reported for each NodePool, even if it is zero.
func counted() []corev1.ResourceName {
	return []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods, "nodes"}
}

func sentence(list []string) string { return strings.Join(list, "; ") }

func zero(name corev1.ResourceName) resource.Quantity {
	if name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
		return *resource.NewQuantity(0, resource.BinarySI)
	}
	return *resource.NewQuantity(0, resource.DecimalSI)
}
