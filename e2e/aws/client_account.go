package aws

import (
	"context"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/meter"
)

// SetQuota limits the running vCPUs of a capacity type (Spot, OnDemand); negative means no limit.
func (c *Client) SetQuota(ctx context.Context, capacityType string, vcpus int) error {
	_, err := c.do(ctx, "quota", Command{CapacityType: capacityType, Count: vcpus})
	return err
}

// SetSpotRole sets whether the account has the service-linked role of EC2 Spot.
func (c *Client) SetSpotRole(ctx context.Context, there bool) error {
	command := Command{}
	if there {
		command.Count = 1
	}
	_, err := c.do(ctx, "spot-role", command)
	return err
}

// SetPrice multiplies the prices of an instance type, or of all.
func (c *Client) SetPrice(ctx context.Context, instanceType string, factor float64) error {
	_, err := c.do(ctx, "price", Command{InstanceType: instanceType, Factor: factor})
	return err
}

// ReleaseImages publishes new AMIs of EKS. Empty names are derived from the date.
func (c *Client) ReleaseImages(ctx context.Context, al2023, bottlerocket string) error {
	_, err := c.do(ctx, "release", Command{AL2023: al2023, Bottlerocket: bottlerocket})
	return err
}

// DeprecateImage deprecates an AMI.
func (c *Client) DeprecateImage(ctx context.Context, id string) error {
	_, err := c.do(ctx, "deprecate", Command{Image: id})
	return err
}

// DeleteTemplates deletes all launch templates and returns their number.
func (c *Client) DeleteTemplates(ctx context.Context) (int, error) {
	reply, err := c.do(ctx, "delete-templates", Command{})
	return reply.Count, err
}

// SetTagsAfter sets how late EC2 lists tags.
func (c *Client) SetTagsAfter(ctx context.Context, d time.Duration) error {
	_, err := c.do(ctx, "tags-after", Command{For: d.String()})
	return err
}

// Reserve reserves capacity and returns the reservation's id. Starts and Open are not read.
func (c *Client) Reserve(ctx context.Context, r CapacityReservation) (string, error) {
	reply, err := c.do(ctx, "reserve", Command{
		InstanceType: r.InstanceType, Zone: r.Zone, Count: r.Total, Tags: r.Tags, ReservationType: r.Type, Interruptible: r.Interruptible, Ends: r.Ends,
	})
	return reply.Reservation, err
}

// CancelReservation cancels a capacity reservation.
func (c *Client) CancelReservation(ctx context.Context, id string) error {
	_, err := c.do(ctx, "cancel-reservation", Command{Reservation: id})
	return err
}

// SetCPU sets how many vCPUs of an instance are busy from now on.
func (c *Client) SetCPU(ctx context.Context, instanceID string, vcpus float64) error {
	_, err := c.do(ctx, "cpu", Command{Instance: instanceID, Factor: vcpus})
	return err
}

// Bill returns what the account has paid since the server's start.
func (c *Client) Bill(ctx context.Context) (meter.Bill, error) {
	reply, err := c.do(ctx, "bill", Command{})
	if err != nil || reply.Bill == nil {
		return meter.Bill{}, err
	}
	return *reply.Bill, nil
}
