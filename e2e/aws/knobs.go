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
		return machine{}, fmt.Errorf("finding instance %s: it does not exist", id)
	case !m.Live():
		return machine{}, fmt.Errorf("finding instance %s: it is %s", id, m.State)
	}
	return m, nil
}

// Interrupt announces a spot instance's interruption through the queue, and terminates it after SpotNotice.
func (s *Server) Interrupt(id string) error {
	m, err := s.find(id)
	if err != nil {
		return err
	}
	warning, reason := "EC2 Spot Instance Interruption Warning", stateReason{spotTermination, spotTermination + ": Spot instance termination"}
	switch {
	case m.market == marketInterruptible:
		warning = "EC2 Capacity Reservation Instance Interruption Warning"
		reason = stateReason{"Server.CapacityReservationInterruption", "Server.CapacityReservationInterruption: the owner takes the capacity back"}
	case m.CapacityType != Spot:
		return fmt.Errorf("interrupting instance %s: it is %s, and only spot instances and those in interruptible capacity reservations are interrupted", id, m.CapacityType)
	}
	s.instances.change(id, func(m *machine) { m.interrupting = true })
	s.notify("aws.ec2", warning, id, interruptionDetail{id, "terminate"})
	s.after(s.cfg.SpotNotice, func() {
		s.end(id, reason)
	})
	return nil
}

// InterruptOne interrupts any running spot instance and returns its id.
func (s *Server) InterruptOne() (string, error) {
	running := s.instances.list(func(m *machine) bool {
		return m.CapacityType == Spot && m.State == StateRunning && !m.interrupting
	})
	if len(running) == 0 {
		return "", fmt.Errorf("interrupting a spot instance: none runs that is not being interrupted")
	}
	id := running[s.dice.pick(len(running))].ID
	return id, s.Interrupt(id)
}

// interruptAtRandom interrupts spot instances at the configured rate.
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
		return fmt.Errorf("rebalancing instance %s: it is %s, and only spot instances get recommendations", id, m.CapacityType)
	}
	s.notify("aws.ec2", "EC2 Instance Rebalance Recommendation", id, rebalanceDetail{id})
	return nil
}

// ScheduledChange announces through AWS Health that an instance is to be retired.
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

// Terminate terminates an instance as its user would.
func (s *Server) Terminate(id string) error {
	if _, err := s.find(id); err != nil {
		return err
	}
	s.end(id, userShutdown())
	return nil
}

// userShutdown returns the reason of a termination that the user requested.
func userShutdown() stateReason {
	return stateReason{"Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"}
}

// ICE removes the capacity of an instance type in a zone for a capacity type (Spot, OnDemand) for the time d. Each of the
// three may be "all".
func (s *Server) ICE(instanceType, zone, capacityType string, d time.Duration) {
	s.faults.addICE(pool{instanceType, zone, capacityType, time.Now().Add(d)})
}

// ClearICE restores all capacity.
func (s *Server) ClearICE() { s.faults.clearICE() }

// Throttle throttles every call for the time d.
func (s *Server) Throttle(d time.Duration) { s.faults.throttleFor(d) }

// Down makes every service fail for the time d: calls get status 503, or their connections are closed.
func (s *Server) Down(d time.Duration) { s.faults.downFor(d) }

// FailNextJoins sets FailJoin of the next n launched instances, except those of node groups.
func (s *Server) FailNextJoins(n int) { s.faults.failNextJoins(n) }

// EndNextLaunches has EC2 end the next n launched instances, except those of node groups, while they are pending: CreateFleet succeeds, and only the state
// reason has the cause. The code is such as Client.InternalError (EC2 API reference, "StateReason").
func EndNextLaunches(s *Server, n int, code, message string) {
	s.faults.endNextLaunches(n, code, code+": "+message)
}

// Calls returns the latest hundred thousand API calls in the order of arrival.
func (s *Server) Calls() []Call { return s.calls.list() }

// Resources returns what exists from the start.
func (s *Server) Resources() Resources { return s.resources }
