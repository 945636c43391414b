package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// Impaired implements cloud.Cloud. It makes one call for each of the two checks and one for events, however many instances there are.
func (c *Cloud) Impaired(ctx context.Context) (_ []cloud.InstanceStatus, err error) {
	defer c.metrics.measure("InstanceStatus")(&err)
	found := map[string]cloud.InstanceStatus{}
	for _, f := range []ec2types.Filter{
		filter("system-status.status", string(ec2types.SummaryStatusImpaired)),
		filter("instance-status.status", string(ec2types.SummaryStatusImpaired)),
		filter("event.code", eventCodes()...),
	} {
		if err := c.describeStatus(ctx, f, found); err != nil {
			return nil, err
		}
	}
	out := make([]cloud.InstanceStatus, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id])
	}
	return out, nil
}

func eventCodes() []string {
	var out []string
	for _, code := range ec2types.EventCode("").Values() {
		out = append(out, string(code))
	}
	return out
}

func (c *Cloud) describeStatus(ctx context.Context, f ec2types.Filter, found map[string]cloud.InstanceStatus) error {
	pages := ec2.NewDescribeInstanceStatusPaginator(c.ec2, &ec2.DescribeInstanceStatusInput{
		Filters: []ec2types.Filter{f}, MaxResults: awssdk.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("describing the status of instances: %w", err)
		}
		for _, s := range page.InstanceStatuses {
			found[awssdk.ToString(s.InstanceId)] = statusOf(s)
		}
	}
	return nil
}

func statusOf(s ec2types.InstanceStatus) cloud.InstanceStatus {
	out := cloud.InstanceStatus{
		ID: awssdk.ToString(s.InstanceId), SystemImpaired: impairedSince(s.SystemStatus), InstanceImpaired: impairedSince(s.InstanceStatus),
	}
	for _, e := range s.Events {
		out.Events = append(out.Events, cloud.ScheduledEvent{
			Code: string(e.Code), Description: awssdk.ToString(e.Description), NotBefore: awssdk.ToTime(e.NotBefore),
		})
	}
	return out
}

// impairedSince returns since when a check fails; zero if it does not fail or has no time.
func impairedSince(s *ec2types.InstanceStatusSummary) (since time.Time) {
	if s == nil || s.Status != ec2types.SummaryStatusImpaired {
		return since
	}
	for _, d := range s.Details {
		if d.ImpairedSince != nil && (since.IsZero() || d.ImpairedSince.Before(since)) {
			since = *d.ImpairedSince
		}
	}
	return since
}
