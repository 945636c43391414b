package aws

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// impairments are the failing checks and the scheduled event of a machine.
type impairments struct {
	// system and instance are since when the status checks of the host and of the machine fail; zero where they pass.
	system, instance time.Time
	// event is the scheduled one; nil for none.
	event *eventXML
}

type (
	statusXML struct {
		ID       string             `xml:"instanceId"`
		Zone     string             `xml:"availabilityZone"`
		ZoneID   string             `xml:"availabilityZoneId"`
		State    stateXML           `xml:"instanceState"`
		System   checkXML           `xml:"systemStatus"`
		Instance checkXML           `xml:"instanceStatus"`
		Events   wire.Set[eventXML] `xml:"eventsSet"`
	}
	checkXML struct {
		Status  string               `xml:"status"`
		Details wire.Set[checkedXML] `xml:"details"`
	}
	checkedXML struct {
		Name   string `xml:"name"`
		Status string `xml:"status"`
		Since  string `xml:"impairedSince,omitempty"`
	}
	eventXML struct {
		ID          string `xml:"instanceEventId"`
		Code        string `xml:"code"`
		Description string `xml:"description"`
		NotBefore   string `xml:"notBefore"`
		NotAfter    string `xml:"notAfter"`
	}
)

// FailCheck makes a status check of an instance fail from now on: system for its host, instance for the machine itself.
func (s *Server) FailCheck(id, check string, since time.Time) error {
	if _, err := s.find(id); err != nil {
		return err
	}
	if check != "system" && check != "instance" {
		return fmt.Errorf("failing a check of instance %s: %q is neither system nor instance", id, check)
	}
	s.instances.change(id, func(m *machine) {
		if check == "system" {
			m.system = since
		} else {
			m.instance = since
		}
	})
	return nil
}

// ScheduleEvent schedules an event for an instance in two weeks, such as instance-retirement. The description of an event
// that is over begins with [Completed] or [Canceled].
func (s *Server) ScheduleEvent(id, code, description string) error {
	if _, err := s.find(id); err != nil {
		return err
	}
	start := time.Now().UTC().Add(14 * 24 * time.Hour)
	s.instances.change(id, func(m *machine) {
		m.event = &eventXML{
			ID: "instance-event-" + s.dice.hex(17), Code: code, Description: description,
			NotBefore: wire.Timestamp(start), NotAfter: wire.Timestamp(start.Add(2 * time.Hour)),
		}
	})
	return nil
}

// check returns the result of a status check.
func check(running bool, failing time.Time) checkXML {
	switch {
	case !running:
		return checkXML{"initializing", wire.NewSet(checkedXML{"reachability", "initializing", ""})}
	case !failing.IsZero():
		return checkXML{"impaired", wire.NewSet(checkedXML{"reachability", "failed", wire.Timestamp(failing)})}
	}
	return checkXML{"ok", wire.NewSet(checkedXML{"reachability", "passed", ""})}
}

// describeInstanceStatus lists running instances, or all if the call asks for all.
func (s *Server) describeInstanceStatus(_ context.Context, r request) (any, error) {
	everything := r.Params.Bool("IncludeAllInstances")
	items := s.visibleInstances(r.Params.Strings("InstanceId")...)
	if !r.Params.At("InstanceId").Given() {
		items = slices.DeleteFunc(items, func(m machine) bool { return !everything && m.State != StateRunning })
	}
	page, next, err := s.instanceList(r.Params, items, func(m machine) wire.Attribute {
		running, event := m.State == StateRunning, eventXML{}
		if m.event != nil {
			event = *m.event
		}
		system, own := check(running, m.system), check(running, m.instance)
		return fixed(map[string]string{
			"availability-zone": m.Zone, "instance-state-name": m.State, "instance-state-code": strconv.Itoa(stateCode(m.State).Code),
			"instance-status.status": own.Status, "instance-status.reachability": own.Details.Items[0].Status,
			"system-status.status": system.Status, "system-status.reachability": system.Details.Items[0].Status,
			"event.code": event.Code, "event.description": event.Description,
		})
	})
	if err != nil {
		return nil, err
	}
	out := struct {
		Set  wire.Set[statusXML] `xml:"instanceStatusSet"`
		Next string              `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, m := range page {
		running := m.State == StateRunning
		if !everything && !running {
			continue
		}
		status := statusXML{
			ID: m.ID, Zone: m.Zone, ZoneID: m.ZoneID, State: stateCode(m.State),
			System: check(running, m.system), Instance: check(running, m.instance),
		}
		if m.event != nil {
			status.Events = wire.NewSet(*m.event)
		}
		out.Set.Items = append(out.Set.Items, status)
	}
	return out, nil
}
