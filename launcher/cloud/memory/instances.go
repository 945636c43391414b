package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// Settled implements cloud.Cloud. The result of a launch ID is kept, as for EC2's client tokens.
func (c *Cloud) Settled(string) {}

// Launch implements cloud.Cloud: one instance per claim from the cheapest option that has capacity, all of one capacity type: spot if any
// option is spot. The same launch ID gives the same answer, as EC2's client token does.
func (c *Cloud) Launch(ctx context.Context, in cloud.LaunchInput) (cloud.LaunchOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(ctx, Launch); err != nil {
		return cloud.LaunchOutput{}, err
	}
	if broken := c.classes[in.Class.Name]; broken != nil {
		return cloud.LaunchOutput{}, broken
	}
	if known, ok := c.launches[in.LaunchID]; ok && !c.config.IgnoreTokens {
		if known.count != len(in.Claims) {
			return cloud.LaunchOutput{}, fmt.Errorf("IdempotentParameterMismatch: launch %s was called with %d claims before", in.LaunchID, known.count)
		}
		return known.output, nil
	}
	var out cloud.LaunchOutput
	failed := map[Offering]bool{}
	for range in.Claims {
		if id, ok := c.launchOne(in, &out, failed); ok {
			out.InstanceIDs = append(out.InstanceIDs, id)
		}
	}
	if len(failed) > 0 {
		c.touchLocked()
	}
	c.launches[in.LaunchID] = launch{count: len(in.Claims), output: out}
	return out, nil
}

func (c *Cloud) launchOne(in cloud.LaunchInput, out *cloud.LaunchOutput, failed map[Offering]bool) (string, bool) {
	for _, o := range cloud.OfFirstKind(in.Options) {
		key := Offering{o.InstanceType, o.Zone, o.CapacityType}
		if c.take(key) {
			return c.add(in, o), true
		}
		if !failed[key] {
			failed[key] = true
			c.iceUntil[key] = time.Now().Add(c.config.ICEFor)
			out.Failures = append(out.Failures, cloud.OfferingFailure{
				Option: o, Reason: "InsufficientInstanceCapacity", Cause: cloud.CauseCapacity, Condition: "InsufficientCapacity",
				Message: fmt.Sprintf("We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", o.InstanceType, o.Zone),
			})
		}
	}
	return "", false
}

// take uses one unit of each capacity that was set for the offering.
func (c *Cloud) take(o Offering) bool {
	var keys []Offering
	for k := range c.capacity {
		if (k.InstanceType == "" || k.InstanceType == o.InstanceType) && (k.Zone == "" || k.Zone == o.Zone) &&
			(k.CapacityType == "" || k.CapacityType == o.CapacityType) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		if c.capacity[k] <= 0 {
			return false
		}
	}
	for _, k := range keys {
		c.capacity[k]--
	}
	return true
}

func (c *Cloud) add(in cloud.LaunchInput, o cloud.Option) string {
	c.serial++
	id := fmt.Sprintf("i-%017x", c.serial)
	ip := fmt.Sprintf("10.0.%d.%d", c.serial/250, c.serial%250+1)
	tags := map[string]string{}
	maps.Copy(tags, in.Class.Spec.Tags)
	tags[catalog.LaunchAnnotation], tags["karpenter.k8s.aws/ec2nodeclass"] = in.LaunchID, in.Class.Name
	if len(in.Claims) > 0 {
		if pool := in.Claims[0].Labels["karpenter.sh/nodepool"]; pool != "" {
			tags["karpenter.sh/nodepool"] = pool
		}
	}
	c.instances[id] = &instance{Instance: cloud.Instance{
		ID: id, InstanceType: o.InstanceType, Zone: o.Zone, ZoneID: zonesOf(c.types)[o.Zone], CapacityType: o.CapacityType,
		Tenancy: cmp.Or(in.Tenancy, catalog.TenancyDefault), ImageID: "ami-1", PrivateIP: ip, PrivateDNSName: "ip-" + strings.ReplaceAll(ip, ".", "-") + ".ec2.internal",
		LaunchTime: time.Now(), Tags: tags, Hibernates: in.Hibernate && c.config.NoHibernation == "",
	}}
	return id
}

// Instances implements cloud.Cloud.
func (c *Cloud) Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(ctx, Instances); err != nil {
		return nil, err
	}
	shifted, _ := c.ShiftedZones()
	now := time.Now()
	var out []cloud.Instance
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		i := c.instances[id]
		all := len(sel.IDs) == 0 && len(sel.LaunchIDs) == 0
		if !all && !slices.Contains(sel.IDs, id) && !slices.Contains(sel.LaunchIDs, i.Tags[catalog.LaunchAnnotation]) {
			continue
		}
		if now.Before(i.LaunchTime.Add(c.config.VisibleAfter)) || i.forgotten(now, c.config) || shifted[i.ZoneID] {
			continue
		}
		out = append(out, c.describe(i, now))
	}
	return out, nil
}

func (i *instance) forgotten(now time.Time, c Config) bool {
	return !i.terminatedAt.IsZero() && !now.Before(i.terminatedAt.Add(c.TerminatedAfter+c.ForgottenAfter))
}

func (c *Cloud) describe(i *instance, now time.Time) cloud.Instance {
	out := i.Instance
	out.Tags = maps.Clone(i.Tags)
	switch {
	case !i.terminatedAt.IsZero() && !now.Before(i.terminatedAt.Add(c.config.TerminatedAfter)):
		// As in EC2, a terminated instance has no addresses.
		out.State, out.PrivateIP, out.PrivateDNSName = cloud.StateTerminated, "", ""
	case !i.terminatedAt.IsZero():
		out.State = cloud.StateShuttingDown
	case !i.stoppedAt.IsZero():
		out.State = cloud.StateStopped
	case now.Before(i.LaunchTime.Add(c.config.RunningAfter)):
		out.State = cloud.StatePending
	default:
		out.State = cloud.StateRunning
	}
	return out
}

// Tag implements cloud.Cloud.
func (c *Cloud) Tag(ctx context.Context, instanceID string, tags map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(ctx, Tag); err != nil {
		return err
	}
	i, ok := c.instances[instanceID]
	if now := time.Now(); !ok || now.Before(i.LaunchTime.Add(c.config.VisibleAfter)) || i.forgotten(now, c.config) {
		return &cloud.NotFoundError{InstanceID: instanceID}
	}
	maps.Copy(i.Tags, tags)
	return nil
}

// Terminate implements cloud.Cloud.
func (c *Cloud) Terminate(ctx context.Context, instanceIDs []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(ctx, Terminate); err != nil {
		return err
	}
	c.end(instanceIDs)
	return nil
}

func (c *Cloud) end(ids []string) {
	for _, id := range ids {
		if i, ok := c.instances[id]; ok && i.terminatedAt.IsZero() {
			i.terminatedAt = time.Now()
		}
	}
}
