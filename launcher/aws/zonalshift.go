package aws

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	shifttypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// zonalShifts are the zones that the cluster's traffic is shifted away from, by their IDs.
type zonalShifts struct {
	mu  sync.Mutex
	by  map[string]mark
	arc *arczonalshift.Client
	eks *eks.Client
	// cluster is the name of the EKS cluster, arn its ARN once EKS has returned it.
	cluster, arn string
	// read is true once AWS has answered, or if it is not asked.
	read bool
	// begun is when the launcher began to ask.
	begun time.Time
}

// shiftsAwaited bounds how long the launcher waits for the first answer. A VPC without a way to the service gives none, and instances that are gone would keep their
// NodeClaims for ever.
const shiftsAwaited = 10 * time.Minute

// newZonalShifts returns those of a cluster, of which there are none unless they are read.
func newZonalShifts(c awssdk.Config, cluster string, read bool) *zonalShifts {
	return &zonalShifts{arc: arczonalshift.NewFromConfig(c), eks: eks.NewFromConfig(c), cluster: cluster, read: !read, begun: time.Now()}
}

// ShiftedZones implements cloud.Cloud.
func (z *zonalShifts) ShiftedZones() (zones map[string]bool, known bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]bool{}
	for id, m := range z.by {
		if m.holds(time.Now()) {
			out[id] = true
		}
	}
	return out, z.read || time.Since(z.begun) > shiftsAwaited
}

// answered notes how AWS answered. An error is an answer unless the same call may succeed a moment later: a cluster that is not enabled for zonal
// shifts has none.
func (z *zonalShifts) answered(err error) {
	if err != nil && isTransient(err) && !isNotImplemented(err) {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.read = true
}

// over returns the zones with the marks of their shifts.
func (z *zonalShifts) over(zones map[string]offerZone, now time.Time) map[string]offerZone {
	z.mu.Lock()
	defer z.mu.Unlock()
	for name, zone := range zones {
		if m, ok := z.by[zone.id]; ok && m.holds(now) {
			zone.exhausted = longest(zone.exhausted, m)
			zones[name] = zone
		}
	}
	return zones
}

// set replaces the shifts, and returns the zones that are shifted now and those that no longer are.
func (z *zonalShifts) set(next map[string]mark, now time.Time) (begun, ended []string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	maps.DeleteFunc(next, func(_ string, m mark) bool { return !m.holds(now) })
	for id := range next {
		if _, ok := z.by[id]; !ok {
			begun = append(begun, id)
		}
	}
	for id := range z.by {
		if _, ok := next[id]; !ok {
			ended = append(ended, id)
		}
	}
	z.by = next
	return begun, ended
}

// refresh asks for the cluster's zonal shifts, and returns the zones that are shifted now and those that no longer are. Only Refresh calls it.
func (z *zonalShifts) refresh(ctx context.Context) (begun, ended []string, err error) {
	defer func() { z.answered(err) }()
	if z.arn == "" {
		out, err := z.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &z.cluster})
		if err != nil {
			return nil, nil, fmt.Errorf("describing EKS cluster %s: %w", z.cluster, err)
		}
		z.arn = awssdk.ToString(out.Cluster.Arn)
	}
	out, err := z.arc.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: &z.arn})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the zonal shifts of %s, whose EKS cluster must be enabled for them: %w", z.arn, err)
	}
	begun, ended = z.set(shiftsOf(out.ZonalShifts), time.Now())
	return begun, ended, nil
}

// shiftsOf returns the marks of the shifts in effect: of several shifts of one cluster, AWS applies one.
func shiftsOf(list []shifttypes.ZonalShiftInResource) map[string]mark {
	out := map[string]mark{}
	for _, s := range list {
		if s.AppliedStatus != shifttypes.AppliedStatusApplied || s.AwayFrom == nil || s.ExpiryTime == nil {
			continue
		}
		out[*s.AwayFrom] = longest(out[*s.AwayFrom], mark{
			Refusal: ec2error.Refusal{Code: ec2error.ZonalShift, Since: awssdk.ToTime(s.StartTime)}, until: *s.ExpiryTime,
		})
	}
	return out
}
