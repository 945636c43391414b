package aws

import (
	"fmt"
	"time"
)

// find returns a live instance.
func (s *Server) find(id string) (machine, error) {
	m, ok := s.instances.get(id)
	switch {
	case !ok:
		return machine{}, fmt.Errorf("instance %s does not exist", id)
	case !m.Live():
		return machine{}, fmt.Errorf("instance %s is %s", id, m.State)
	}
	return m, nil
}

// Interrupt announces a spot instance's interruption through the queue, and takes it away after SpotNotice.
func (s *Server) Interrupt(id string) error {
	m, err := s.find(id)
	if err != nil {
		return err
	}
	if m.CapacityType != Spot {
		return fmt.Errorf("instance %s is %s: only spot instances are interrupted", id, m.CapacityType)
	}
	s.instances.change(id, func(m *machine) { m.interrupting = true })
	s.notify("aws.ec2", "EC2 Spot Instance Interruption Warning", id, interruptionDetail{id, "terminate"})
	s.after(s.cfg.SpotNotice, func() {
		s.end(id, stateReason{"Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot instance termination"})
	})
	return nil
}

// InterruptOne interrupts any running spot instance and returns its id.
func (s *Server) InterruptOne() (string, error) {
	running := s.instances.list(func(m *machine) bool {
		return m.CapacityType == Spot && m.State == StateRunning && !m.interrupting
	})
	if len(running) == 0 {
		return "", fmt.Errorf("no spot instance is running that is not being interrupted")
	}
	id := running[s.dice.pick(len(running))].ID
	return id, s.Interrupt(id)
}

// interruptAtRandom keeps on interrupting spot instances at the configured rate.
func (s *Server) interruptAtRandom() {
	if s.cfg.SpotInterruptions <= 0 {
		return
	}
	pause := time.Duration(s.dice.exponential() * float64(time.Hour) / s.cfg.SpotInterruptions)
	s.after(pause, func() {
		if id, err := s.InterruptOne(); err == nil {
			s.cfg.Logger.Info("Interrupted at random", "instanceID", id)
		}
		s.interruptAtRandom()
	})
}

// Rebalance sends a rebalance recommendation for a spot instance.
func (s *Server) Rebalance(id string) error {
	m, err := s.find(id)
	if err != nil {
		return err
	}
	if m.CapacityType != Spot {
		return fmt.Errorf("instance %s is %s: only spot instances are recommended to be rebalanced", id, m.CapacityType)
	}
	s.notify("aws.ec2", "EC2 Instance Rebalance Recommendation", id, rebalanceDetail{id})
	return nil
}

// ScheduledChange announces by AWS Health that an instance is to be retired.
func (s *Server) ScheduledChange(id string) error {
	if _, err := s.find(id); err != nil {
		return err
	}
	const code = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"
	start := time.Now().UTC().Add(14 * 24 * time.Hour)
	s.notify("aws.health", "AWS Health Event", id, healthDetail{
		EventARN: fmt.Sprintf("arn:aws:health:%s::event/EC2/%s/%s_%s", s.cfg.Region, code, code, s.dice.hex(8)),
		Service:  "EC2", EventTypeCode: code, EventTypeCategory: "scheduledChange",
		StartTime: start.Format(time.RFC1123), EndTime: start.Add(time.Hour).Format(time.RFC1123),
		EventDescription: []healthText{{"en_US", "The instance is scheduled to be retired."}},
		AffectedEntities: []healthEntity{{id}},
	})
	return nil
}

// Terminate ends an instance as its user would.
func (s *Server) Terminate(id string) error {
	if _, err := s.find(id); err != nil {
		return err
	}
	s.end(id, userShutdown())
	return nil
}

// userShutdown is the reason of an instance's end that its user asked for.
func userShutdown() stateReason {
	return stateReason{"Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"}
}

// ICE takes away the capacity of an instance type in a zone for a capacity type (Spot, OnDemand) for the time d; each of
// the three may be "all".
func (s *Server) ICE(instanceType, zone, capacityType string, d time.Duration) {
	s.faults.addICE(pool{instanceType, zone, capacityType, time.Now().Add(d)})
}

// ClearICE gives all capacity back.
func (s *Server) ClearICE() { s.faults.clearICE() }

// Throttle answers every call for the time d that there were too many.
func (s *Server) Throttle(d time.Duration) { s.faults.throttleFor(d) }

// Down breaks every service for the time d: calls are answered with 503, or their connections closed.
func (s *Server) Down(d time.Duration) { s.faults.downFor(d) }

// FailNextJoins flags the next n instances that are launched with FailJoin, those of node groups excepted.
func (s *Server) FailNextJoins(n int) { s.faults.failNextJoins(n) }

// Calls returns the API calls in the order of their arrival, the latest hundred thousand.
func (s *Server) Calls() []Call { return s.calls.list() }

// Resources returns what is there from the start.
func (s *Server) Resources() Resources { return s.resources }
