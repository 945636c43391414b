package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// Call names a method of cloud.Cloud.
type Call string

// The calls that can be made to fail.
const (
	Resolve       Call = "Resolve"
	InstanceTypes Call = "InstanceTypes"
	Launch        Call = "Launch"
	Instances     Call = "Instances"
	Tag           Call = "Tag"
	Terminate     Call = "Terminate"
	Stop          Call = "StopInstances"
	Start         Call = "StartInstances"
	Impaired      Call = "Impaired"
	Receive       Call = "Receive"
	Delete        Call = "Delete"
	Release       Call = "Release"
)

// ErrThrottled is the error of a throttled call.
var ErrThrottled = errors.New("RequestLimitExceeded: Request limit exceeded")

// Config of a Cloud. The zero value is a cloud without instance types whose instances run at once.
type Config struct {
	// Types that every class can launch, sorted or not.
	Types []catalog.InstanceType
	// VisibleAfter is how long a new instance is missing from Instances.
	VisibleAfter time.Duration
	// RunningAfter is how long an instance is pending.
	RunningAfter time.Duration
	// TerminatedAfter is how long an instance is shutting down.
	TerminatedAfter time.Duration
	// ForgottenAfter is how long a terminated instance is still described; zero means an hour, as EC2 does.
	ForgottenAfter time.Duration
	// VisibilityTimeout is when a message that was received but not deleted becomes visible again; zero means 20 seconds.
	VisibilityTimeout time.Duration
	// ICEFor is how long an offering without capacity stays unavailable; zero means 3 minutes.
	ICEFor time.Duration
	// NoHibernation is why no instance can hibernate; empty if those that are launched for it can.
	NoHibernation string
	// HibernateAfter is the age from which on an instance can hibernate.
	HibernateAfter time.Duration
	// IgnoreTokens makes a call that is repeated with its launch ID launch again, as some EC2 stand-ins do.
	IgnoreTokens bool
}

// Cloud implements cloud.Cloud in memory. It is safe for concurrent use.
type Cloud struct {
	power
	builtinRates
	shifts

	config Config

	mu        sync.Mutex
	types     []catalog.InstanceType
	capacity  map[Offering]int
	iceUntil  map[Offering]time.Time
	failures  map[Call][]error
	throttled time.Time
	classes   map[string]*cloud.NodeClassError
	instances map[string]*instance
	impaired  map[string]cloud.InstanceStatus
	launches  map[string]launch
	changed   chan struct{}
	messages  []*message
	arrived   chan struct{}
	serial    int
	calls     map[Call]int
}

// Offering is the key by which capacity is counted. An empty field of a key given to SetCapacity matches any value.
type Offering struct {
	// InstanceType, Zone and CapacityType as in cloud.Option.
	InstanceType, Zone, CapacityType string
}

type instance struct {
	cloud.Instance
	terminatedAt time.Time
	stoppedAt    time.Time
}

type launch struct {
	count  int
	output cloud.LaunchOutput
}

type message struct {
	cloud.Message
	visibleAt time.Time
}

var _ cloud.Cloud = (*Cloud)(nil)

// New returns an empty cloud.
func New(c Config) *Cloud {
	defaults := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	defaults(&c.ForgottenAfter, time.Hour)
	defaults(&c.VisibilityTimeout, 20*time.Second)
	defaults(&c.ICEFor, 3*time.Minute)
	types := slices.Clone(c.Types)
	slices.SortFunc(types, func(a, b catalog.InstanceType) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	out := &Cloud{
		config: c, types: types, capacity: map[Offering]int{}, iceUntil: map[Offering]time.Time{},
		failures: map[Call][]error{}, classes: map[string]*cloud.NodeClassError{}, instances: map[string]*instance{},
		launches: map[string]launch{}, changed: make(chan struct{}), arrived: make(chan struct{}), calls: map[Call]int{}, impaired: map[string]cloud.InstanceStatus{},
	}
	out.power = power{of: out}
	return out
}

// begin counts a call and returns the error that was set for it. The caller holds mu.
func (c *Cloud) begin(ctx context.Context, call Call) error {
	c.calls[call]++
	if err := ctx.Err(); err != nil {
		return err
	}
	if time.Now().Before(c.throttled) {
		return fmt.Errorf("%s: %w", call, ErrThrottled)
	}
	if queue := c.failures[call]; len(queue) > 0 {
		c.failures[call] = queue[1:]
		if queue[0] != nil {
			return fmt.Errorf("%s: %w", call, queue[0])
		}
	}
	return nil
}

// Resolve implements cloud.Cloud: one subnet per zone of the instance types, one security group, one AMI, a profile.
func (c *Cloud) Resolve(ctx context.Context, class *awsv1.EC2NodeClass) (awsv1.EC2NodeClassStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(ctx, Resolve); err != nil {
		return awsv1.EC2NodeClassStatus{}, err
	}
	out := awsv1.EC2NodeClassStatus{
		SecurityGroups:  []awsv1.SecurityGroup{{ID: "sg-1", Name: "nodes"}},
		AMIs:            []awsv1.AMI{{ID: "ami-1", Name: "memory", Requirements: []corev1.NodeSelectorRequirement{}}},
		InstanceProfile: "profile-" + class.Name,
	}
	for zone, id := range zonesOf(c.types) {
		out.Subnets = append(out.Subnets, awsv1.Subnet{ID: "subnet-" + zone, Zone: zone, ZoneID: id})
	}
	slices.SortFunc(out.Subnets, func(a, b awsv1.Subnet) int { return len(a.ID) - len(b.ID) })
	for _, t := range []string{
		awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady, awsv1.ConditionTypeAMIsReady,
		awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypeValidationSucceeded,
	} {
		out.Conditions = append(out.Conditions, condition(t, c.classes[class.Name]))
	}
	return out, nil
}

func condition(kind string, broken *cloud.NodeClassError) status.Condition {
	if broken == nil || kind != awsv1.ConditionTypeValidationSucceeded {
		return status.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind}
	}
	return status.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: broken.Reason, Message: broken.Message}
}

// zonesOf returns the zone IDs of the offerings by zone.
func zonesOf(types []catalog.InstanceType) map[string]string {
	out := map[string]string{}
	for _, t := range types {
		for _, o := range t.Offerings {
			out[o.Zone] = o.ZoneID
		}
	}
	return out
}

// InstanceTypes implements cloud.Cloud: every class can launch all of Config.Types.
func (c *Cloud) InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(ctx, InstanceTypes); err != nil {
		return nil, err
	}
	if broken := c.classes[class.Name]; broken != nil {
		return nil, broken
	}
	now := time.Now()
	out := make([]catalog.InstanceType, 0, len(c.types))
	for _, t := range c.types {
		t.Labels, t.Capacity, t.Allocatable = maps.Clone(t.Labels), t.Capacity.DeepCopy(), t.Allocatable.DeepCopy()
		t.Offerings = slices.Clone(t.Offerings)
		for i, o := range t.Offerings {
			if until := c.iceUntil[Offering{t.Name, o.Zone, o.CapacityType}]; now.Before(until) {
				t.Offerings[i].Available, t.Offerings[i].UnavailableUntil = false, until
				t.Offerings[i].Refusal = ec2error.Refusal{Code: ec2error.InsufficientInstanceCapacity, Since: until.Add(-c.config.ICEFor), Attempts: 1}
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// AllInstanceTypes implements cloud.Cloud: every price is known.
func (c *Cloud) AllInstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	return c.InstanceTypes(ctx, class)
}

// builtinRates has the built-in prices of what nodes use beside their instances.
type builtinRates struct{}

// Rates implements cloud.Cloud.
func (builtinRates) Rates() *catalog.Rates { return nil }

// Release implements cloud.Cloud: the cloud holds nothing for a class.
func (c *Cloud) Release(ctx context.Context, _ *awsv1.EC2NodeClass) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begin(ctx, Release)
}

// Sweep implements cloud.Cloud: there is nothing to delete.
func (c *Cloud) Sweep(ctx context.Context) error { return ctx.Err() }

// Changed implements cloud.Cloud.
func (c *Cloud) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Refresh implements cloud.Cloud: there is no cache, so it only signals the end of recorded failures.
func (c *Cloud) Refresh(ctx context.Context) error {
	for {
		changed, next := c.forgive()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(time.Until(next)):
		}
	}
}

// forgive drops expired failures and returns when the next one expires, at most an hour from now.
func (c *Cloud) forgive() (<-chan struct{}, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, over := time.Now(), false
	next := now.Add(time.Hour)
	for key, until := range c.iceUntil {
		switch {
		case !now.Before(until):
			delete(c.iceUntil, key)
			over = true
		case until.Before(next):
			next = until
		}
	}
	if over {
		c.touchLocked()
	}
	return c.changed, next
}

func (c *Cloud) touchLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}
