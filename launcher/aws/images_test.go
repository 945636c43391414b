package aws

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
)

// asked is a call's list parameters: filters by name, owners and ids.
func asked(v url.Values) map[string][]string {
	out := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		parts := strings.Split(key, ".")
		switch {
		case parts[0] == "Filter" && parts[2] == "Value":
			name := v.Get("Filter." + parts[1] + ".Name")
			out[name] = append(out[name], v.Get(key))
		case parts[0] == "Owner" || parts[0] == "SecurityGroupId" || parts[0] == "SubnetId":
			out[parts[0]] = append(out[parts[0]], v.Get(key))
		}
	}
	return out
}

// Within a term all has to fit, so it is one call; another term is another call. * stands for any value.
func TestSelectorTerms(t *testing.T) {
	both := []string{"self", "amazon"}
	for name, tc := range map[string]struct {
		set    func(*awsv1.EC2NodeClassSpec)
		action string
		want   []map[string][]string
	}{
		"subnets": {func(s *awsv1.EC2NodeClassSpec) {
			s.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"a": "1", "b": "*"}}, {ID: "subnet-1"}}
		}, "DescribeSubnets", []map[string][]string{{"tag:a": {"1"}, "tag-key": {"b"}}, {"subnet-id": {"subnet-1"}}}},
		"security groups": {func(s *awsv1.EC2NodeClassSpec) {
			s.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Name: "nodes", Tags: map[string]string{"a": "1"}}, {ID: "sg-1"}, {Name: "x"}}
		}, "DescribeSecurityGroups", []map[string][]string{{"group-name": {"nodes"}, "tag:a": {"1"}}, {"group-id": {"sg-1"}}, {"group-name": {"x"}}}},
		"images": {func(s *awsv1.EC2NodeClassSpec) {
			s.AMISelectorTerms = []awsv1.AMISelectorTerm{
				{Name: "mine-*"}, {Tags: map[string]string{"a": "*"}}, {Name: "x", Owner: "123456789012", Tags: map[string]string{"a": "1"}}, {ID: "ami-1"},
			}
		}, "DescribeImages", []map[string][]string{
			{"name": {"mine-*"}, "Owner": both, "state": {"available"}},
			{"tag-key": {"a"}, "state": {"available"}},
			{"name": {"x"}, "tag:a": {"1"}, "Owner": {"123456789012"}, "state": {"available"}},
			{"image-id": {"ami-1"}, "state": {"available"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, c, class := newAccount(t)
			tc.set(&class.Spec)
			if _, err := c.Resolve(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			var got []map[string][]string
			for _, v := range w.made(tc.action) {
				got = append(got, asked(v))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
