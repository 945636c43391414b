package aws

import (
	"context"
	"fmt"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const (
	// receiveWait is the longest poll that SQS allows.
	receiveWait = 20 * time.Second
	// receiveVisibility is how long a received message stays hidden if it is not deleted, as in Karpenter.
	receiveVisibility = 20 * time.Second
)

// Receive implements cloud.Cloud. Without a queue it waits as long as a poll would, so that a caller's loop does not spin.
func (c *Cloud) Receive(ctx context.Context) (_ []cloud.Message, err error) {
	if c.cfg.InterruptionQueue == "" {
		timer := time.NewTimer(receiveWait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			return nil, nil
		}
	}
	url, err := c.queueURL(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10,
		WaitTimeSeconds: int32(receiveWait.Seconds()), VisibilityTimeout: int32(receiveVisibility.Seconds()),
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
	})
	if err != nil {
		c.forgetQueue(err)
		return nil, fmt.Errorf("receiving from queue %s: %w", c.cfg.InterruptionQueue, err)
	}
	var messages []cloud.Message
	for _, m := range out.Messages {
		message := ParseEvent(awssdk.ToString(m.Body))
		message.Receipt = awssdk.ToString(m.ReceiptHandle)
		messages = append(messages, message)
	}
	c.markInterrupted(messages)
	return messages, nil
}

// markInterrupted marks the offerings of interrupted spot instances, and the capacity reservations of interrupted instances, as unavailable,
// as Karpenter does.
func (c *Cloud) markInterrupted(messages []cloud.Message) {
	var taken []fleetFailure
	for _, m := range messages {
		for _, id := range m.InstanceIDs {
			o, ok := c.seen.offering(id)
			switch {
			case !ok:
			case m.Kind == cloud.SpotInterrupted && catalog.CapacityTypeOf(o.CapacityType).Interruptible:
				taken = append(taken, interrupted(o))
			case m.Kind == cloud.CapacityReservation && o.Reservation.ID != "":
				c.reserved.reclaimed(o.Reservation.ID)
				c.changed.fire()
			}
		}
	}
	if len(taken) > 0 {
		c.without.remember(taken, time.Now())
	}
}

// Delete implements cloud.Cloud.
func (c *Cloud) Delete(ctx context.Context, receipt string) error {
	if c.cfg.InterruptionQueue == "" {
		return nil
	}
	url, err := c.queueURL(ctx)
	if err != nil {
		return err
	}
	if _, err := c.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: &receipt}); err != nil {
		c.forgetQueue(err)
		return fmt.Errorf("deleting a message from queue %s: %w", c.cfg.InterruptionQueue, err)
	}
	return nil
}

// queueMemory is how long a queue's URL is cached; it does not change.
const queueMemory = 24 * time.Hour

func (c *Cloud) queueURL(ctx context.Context) (string, error) {
	return c.queues.get(ctx, c.cfg.InterruptionQueue, func(ctx context.Context) (string, error) {
		out, err := c.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &c.cfg.InterruptionQueue})
		if err != nil {
			return "", fmt.Errorf("finding queue %s: %w", c.cfg.InterruptionQueue, err)
		}
		return awssdk.ToString(out.QueueUrl), nil
	})
}

func (c *Cloud) forgetQueue(err error) {
	if isQueueGone(err) {
		c.queues.forget(c.cfg.InterruptionQueue)
	}
}
