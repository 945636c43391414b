package catalog

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPoolTenancy(t *testing.T) {
	of := func(operator string, values ...string) Requirement {
		return Requirement{Key: LabelInstanceTenancy, Operator: corev1.NodeSelectorOperator(operator), Values: values}
	}
	for name, tc := range map[string]struct {
		list []Requirement
		want string
	}{
		"nothing":           {nil, TenancyDefault},
		"dedicated":         {[]Requirement{of("In", "dedicated")}, TenancyDedicated},
		"both":              {[]Requirement{of("In", "default", "dedicated")}, TenancyDefault},
		"not default":       {[]Requirement{of("NotIn", "default")}, TenancyDedicated},
		"not dedicated":     {[]Requirement{of("NotIn", "dedicated")}, TenancyDefault},
		"any":               {[]Requirement{of("Exists")}, TenancyDefault},
		"neither":           {[]Requirement{of("In", "host")}, TenancyDefault},
		"contradiction":     {[]Requirement{of("In", "default"), of("In", "dedicated")}, TenancyDefault},
		"cannot be read":    {[]Requirement{of("Roughly", "dedicated")}, TenancyDefault},
		"joined with other": {[]Requirement{of("In", "dedicated", "default"), of("NotIn", "default")}, TenancyDedicated},
	} {
		if got := PoolTenancy(tc.list); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
