package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Client controls a Server in another process, through its control API. It may be used concurrently.
type Client struct{ url string }

// NewClient returns a client of the server at the URL.
func NewClient(url string) *Client { return &Client{url: strings.TrimSuffix(url, "/")} }

func (c *Client) do(ctx context.Context, verb string, command Command) (Reply, error) {
	var reply Reply
	body, err := json.Marshal(command)
	if err != nil {
		return reply, fmt.Errorf("requesting %s: %w", verb, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+controlPath+verb, bytes.NewReader(body))
	if err != nil {
		return reply, fmt.Errorf("requesting %s: %w", verb, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return reply, fmt.Errorf("requesting %s: no sandbox's AWS responds at %s: %w", verb, c.url, err)
	}
	err = json.NewDecoder(response.Body).Decode(&reply)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	switch {
	case reply.Error != "":
		return reply, errors.New(reply.Error)
	case err != nil:
		return reply, fmt.Errorf("requesting %s: the server at %s is not a sandbox's AWS: %w", verb, c.url, err)
	}
	return reply, nil
}

// Instances lists all instances that were ever launched.
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	reply, err := c.do(ctx, "instances", Command{})
	return reply.Instances, err
}

// Calls lists the API calls that arrived.
func (c *Client) Calls(ctx context.Context) ([]Call, error) {
	reply, err := c.do(ctx, "calls", Command{})
	return reply.Calls, err
}

// Interrupt interrupts a spot instance.
func (c *Client) Interrupt(ctx context.Context, instanceID string) error {
	if instanceID == "" {
		return errors.New("requesting interrupt: the instance's id is empty")
	}
	_, err := c.do(ctx, "interrupt", Command{Instance: instanceID})
	return err
}

// InterruptOne interrupts any spot instance and returns its id.
func (c *Client) InterruptOne(ctx context.Context) (string, error) {
	reply, err := c.do(ctx, "interrupt", Command{})
	return reply.Instance, err
}

// Rebalance sends a rebalance recommendation for a spot instance.
func (c *Client) Rebalance(ctx context.Context, instanceID string) error {
	_, err := c.do(ctx, "rebalance", Command{Instance: instanceID})
	return err
}

// ScheduledChange announces an instance's retirement.
func (c *Client) ScheduledChange(ctx context.Context, instanceID string) error {
	_, err := c.do(ctx, "scheduled-change", Command{Instance: instanceID})
	return err
}

// Terminate terminates an instance.
func (c *Client) Terminate(ctx context.Context, instanceID string) error {
	_, err := c.do(ctx, "terminate", Command{Instance: instanceID})
	return err
}

// ICE removes the capacity of a pool for the time d; see Server.ICE. Unknown names are errors.
func (c *Client) ICE(ctx context.Context, instanceType, zone, capacityType string, d time.Duration) error {
	_, err := c.do(ctx, "ice", Command{InstanceType: instanceType, Zone: zone, CapacityType: capacityType, For: d.String()})
	return err
}

// ClearICE restores all capacity.
func (c *Client) ClearICE(ctx context.Context) error {
	_, err := c.do(ctx, "clear-ice", Command{})
	return err
}

// Throttle throttles every call for the time d.
func (c *Client) Throttle(ctx context.Context, d time.Duration) error {
	_, err := c.do(ctx, "throttle", Command{For: d.String()})
	return err
}

// Down makes every service fail for the time d.
func (c *Client) Down(ctx context.Context, d time.Duration) error {
	_, err := c.do(ctx, "down", Command{For: d.String()})
	return err
}

// FailNextJoins makes the next n instances fail to join.
func (c *Client) FailNextJoins(ctx context.Context, n int) error {
	_, err := c.do(ctx, "fail-join", Command{Count: n})
	return err
}

// SendRaw sends any text to the interruption queue.
func (c *Client) SendRaw(ctx context.Context, body string) error {
	_, err := c.do(ctx, "send", Command{Body: body})
	return err
}
