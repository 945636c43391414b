package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// SetCapacity sets how many more instances an offering can launch. An empty field of the key matches any value, and an instance needs
// capacity under each matching key. Without a key capacity is unlimited.
func (c *Cloud) SetCapacity(o Offering, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.capacity[o] = n
}

// ClearCapacity makes an offering's capacity unlimited again and clears its unavailability.
func (c *Cloud) ClearCapacity(o Offering) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.capacity, o)
	delete(c.iceUntil, o)
	c.touchLocked()
}

// Fail makes the next calls of a kind return these errors, one each, in order; a nil error lets a call succeed.
func (c *Cloud) Fail(call Call, errs ...error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[call] = append(c.failures[call], errs...)
}

// Throttle makes every call fail with ErrThrottled for d.
func (c *Cloud) Throttle(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.throttled = time.Now().Add(d)
}

// BreakClass makes a class unable to launch, with this reason; an empty reason repairs it.
func (c *Cloud) BreakClass(name, reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason == "" {
		delete(c.classes, name)
		return
	}
	c.classes[name] = &cloud.NodeClassError{Class: name, Reason: reason, Message: message}
}

// Put adds an instance that the launcher did not launch; missing ID and LaunchTime are filled in. It returns the ID.
func (c *Cloud) Put(i cloud.Instance) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.ID == "" {
		c.serial++
		i.ID = fmt.Sprintf("i-%017x", c.serial)
	}
	if i.LaunchTime.IsZero() {
		i.LaunchTime = time.Now()
	}
	i.Tags = maps.Clone(i.Tags)
	if i.Tags == nil {
		i.Tags = map[string]string{}
	}
	added := &instance{Instance: i}
	switch i.State {
	case cloud.StateTerminated, cloud.StateShuttingDown:
		added.terminatedAt = time.Now()
	case cloud.StateStopped, cloud.StateStopping:
		added.stoppedAt = time.Now()
	case cloud.StatePending, cloud.StateRunning:
	}
	c.instances[i.ID] = added
	return i.ID
}

// Kill terminates instances as AWS does after a spot interruption: without a request and without a message.
func (c *Cloud) Kill(ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(ids)
}

// Stop stops instances.
func (c *Cloud) Stop(ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if i, ok := c.instances[id]; ok {
			i.stoppedAt = time.Now()
		}
	}
}

// Impair gives an instance an impaired status; the zero status makes it healthy again.
func (c *Cloud) Impair(status cloud.InstanceStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := status.ID
	status.ID = ""
	delete(c.impaired, id)
	if status.Events != nil || !status.SystemImpaired.IsZero() || !status.InstanceImpaired.IsZero() {
		status.ID = id
		c.impaired[id] = status
	}
}

// Impaired implements cloud.Cloud.
func (c *Cloud) Impaired(ctx context.Context) ([]cloud.InstanceStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(ctx, Impaired); err != nil {
		return nil, err
	}
	var out []cloud.InstanceStatus
	for _, id := range slices.Sorted(maps.Keys(c.impaired)) {
		out = append(out, c.impaired[id])
	}
	return out, nil
}

// BlockEnd implements cloud.Cloud: there are no Capacity Blocks.
func (c *Cloud) BlockEnd(context.Context, string) (time.Time, error) { return time.Time{}, nil }

// Live lists the IDs of instances that cost money: neither shutting down nor terminated, visible or not.
func (c *Cloud) Live() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		if c.instances[id].terminatedAt.IsZero() {
			out = append(out, id)
		}
	}
	return out
}

// Calls returns how often a method was called, failed calls included.
func (c *Cloud) Calls(call Call) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[call]
}

// Send puts a message into the interruption queue; missing Receipt and Time are filled in. It returns the receipt.
func (c *Cloud) Send(m cloud.Message) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Receipt == "" {
		c.serial++
		m.Receipt = fmt.Sprintf("receipt-%d", c.serial)
	}
	if m.Time.IsZero() {
		m.Time = time.Now()
	}
	c.messages = append(c.messages, &message{Message: m})
	close(c.arrived)
	c.arrived = make(chan struct{})
	return m.Receipt
}

// Queued returns the number of messages that were not deleted.
func (c *Cloud) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.messages)
}

// Receive implements cloud.Cloud: up to 10 messages, after 20 seconds none.
func (c *Cloud) Receive(ctx context.Context) ([]cloud.Message, error) {
	deadline := time.Now().Add(20 * time.Second)
	c.mu.Lock()
	err := c.begin(ctx, Receive)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for {
		out, arrived, next := c.receive(deadline)
		if len(out) > 0 || !time.Now().Before(deadline) {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-arrived:
		case <-time.After(time.Until(next)):
		}
	}
}

func (c *Cloud) receive(deadline time.Time) ([]cloud.Message, <-chan struct{}, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, next := time.Now(), deadline
	var out []cloud.Message
	for _, m := range c.messages {
		switch {
		case now.Before(m.visibleAt):
			if m.visibleAt.Before(next) {
				next = m.visibleAt
			}
		case len(out) < 10:
			m.visibleAt = now.Add(c.config.VisibilityTimeout)
			out = append(out, m.Message)
		}
	}
	return out, c.arrived, next
}

// Delete implements cloud.Cloud.
func (c *Cloud) Delete(ctx context.Context, receipt string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(ctx, Delete); err != nil {
		return err
	}
	c.messages = slices.DeleteFunc(c.messages, func(m *message) bool { return m.Receipt == receipt })
	return nil
}
