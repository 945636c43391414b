package aws_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Instances are in the placement group of their launch template, within EC2's limits.
func TestPlacementGroups(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	group := func(name string, strategy ec2types.PlacementStrategy, partitions *int32) string {
		out, err := client.CreatePlacementGroup(t.Context(), &ec2.CreatePlacementGroupInput{GroupName: &name, Strategy: strategy, PartitionCount: partitions})
		if err != nil {
			t.Fatal(err)
		}
		return awssdk.ToString(out.PlacementGroup.GroupId)
	}
	ids := map[string]string{
		"near": group("near", "cluster", nil), "apart": group("apart", "spread", nil), "parts": group("parts", "partition", awssdk.Int32(3)),
	}
	found, err := client.DescribePlacementGroups(t.Context(), &ec2.DescribePlacementGroupsInput{GroupIds: []string{ids["parts"]}})
	if err != nil || len(found.PlacementGroups) != 1 || awssdk.ToInt32(found.PlacementGroups[0].PartitionCount) != 3 {
		t.Errorf("partition group %+v (%v)", found, err)
	}
	in := func(name string) ec2types.LaunchTemplatePlacementRequest {
		return ec2types.LaunchTemplatePlacementRequest{GroupId: awssdk.String(ids[name])}
	}
	partition := func(name string, n int32) ec2types.LaunchTemplatePlacementRequest {
		return ec2types.LaunchTemplatePlacementRequest{GroupName: &name, PartitionNumber: &n}
	}
	for i, step := range []struct {
		kind  string
		place ec2types.LaunchTemplatePlacementRequest
		n     int32
		zone  int
		want  string
	}{
		{"m5.large", in("near"), 2, 0, "near 0, near 0"},
		{"m5.large", in("near"), 1, 1, "Unsupported"},
		{"t3.large", in("near"), 1, 0, "InvalidParameterCombination"},
		{"m5.large", in("apart"), 7, 0, "apart 0, apart 0, apart 0, apart 0, apart 0, apart 0, apart 0"},
		{"m5.large", in("apart"), 1, 0, "InsufficientInstanceCapacity"},
		{"m5.large", in("apart"), 1, 1, "apart 0"},
		{"m5.large", in("parts"), 3, 0, "parts 1, parts 2, parts 3"},
		{"m5.large", partition("parts", 3), 1, 1, "parts 3"},
		{"m5.large", partition("parts", 4), 1, 0, "InvalidParameterValue"},
		{"m5.large", partition("apart", 1), 1, 2, "InvalidParameterCombination"},
		{"m5.large", ec2types.LaunchTemplatePlacementRequest{GroupId: awssdk.String("pg-1")}, 1, 0, "InvalidPlacementGroup.Unknown"},
	} {
		t.Run(fmt.Sprintf("step %d", i), func(t *testing.T) {
			call := fleetInput(t, server, step.n, step.kind)
			call.LaunchTemplateConfigs[0].Overrides = call.LaunchTemplateConfigs[0].Overrides[step.zone : step.zone+1]
			out, got := launchTemplateWith(t, server, call, func(data *ec2types.RequestLaunchTemplateData) { data.Placement = &step.place })
			if got == "" {
				var places []string
				for _, id := range launched(out) {
					p := describedOne(t, server, id).Placement
					places = append(places, fmt.Sprintf("%s %d", awssdk.ToString(p.GroupName), awssdk.ToInt32(p.PartitionNumber)))
				}
				slices.Sort(places)
				got = strings.Join(places, ", ")
			}
			if got != step.want {
				t.Errorf("%s, want %s", got, step.want)
			}
		})
	}
	_, err = client.DeletePlacementGroup(t.Context(), &ec2.DeletePlacementGroupInput{GroupName: awssdk.String("near")})
	wantCode(t, err, "InvalidPlacementGroup.InUse")
}
