package aws

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// event holds the fields of an EventBridge event that are read (Amazon EventBridge user guide, "AWS service event metadata").
type event struct {
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Time       time.Time       `json:"time"`
	Detail     json.RawMessage `json:"detail"`
}

// instanceDetail is the detail of EC2's events: spot interruption, rebalance recommendation, interruption of a capacity reservation's
// instance, and state change (EC2 user guide, "Monitor events for EC2").
type instanceDetail struct {
	InstanceID string `json:"instance-id"`
	State      string `json:"state"`
}

// healthDetail is the detail of AWS Health's events (AWS Health user guide, "Reference: AWS Health events schema").
type healthDetail struct {
	Service           string `json:"service"`
	EventTypeCategory string `json:"eventTypeCategory"`
	AffectedEntities  []struct {
		EntityValue string `json:"entityValue"`
	} `json:"affectedEntities"`
}

// ParseEvent parses the body of an interruption message. Err is set if the body is not an event, or if an event of a supported kind has no
// instance. An event of another kind becomes a no-op.
func ParseEvent(body string) cloud.Message {
	var e event
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return cloud.Message{Err: fmt.Errorf("the message is not an EventBridge event: %w", err)}
	}
	m := cloud.Message{Kind: cloud.NoOp, Time: e.Time}
	if e.Source == "aws.health" && e.DetailType == "AWS Health Event" {
		return readHealth(e, m)
	}
	if e.Source != "aws.ec2" {
		return m
	}
	switch e.DetailType {
	case "EC2 Spot Instance Interruption Warning":
		m.Kind = cloud.SpotInterrupted
	case "EC2 Instance Rebalance Recommendation":
		m.Kind = cloud.RebalanceRecommendation
	case "EC2 Capacity Reservation Instance Interruption Warning":
		m.Kind = cloud.CapacityReservation
	case "EC2 Instance State-change Notification":
	default:
		return m
	}
	var detail instanceDetail
	if err := json.Unmarshal(e.Detail, &detail); err != nil {
		m.Err = fmt.Errorf("%s: detail cannot be read: %w", e.DetailType, err)
		return m
	}
	if detail.InstanceID == "" {
		m.Err = fmt.Errorf("%s: detail.instance-id is empty", e.DetailType)
		return m
	}
	m.InstanceIDs = []string{detail.InstanceID}
	switch cloud.InstanceState(detail.State) {
	case cloud.StateStopping, cloud.StateStopped:
		m.Kind = cloud.InstanceStopped
	case cloud.StateShuttingDown, cloud.StateTerminated:
		m.Kind = cloud.InstanceTerminated
	default:
		// The other kinds have no state; pending and running need no action.
	}
	return m
}

func readHealth(e event, m cloud.Message) cloud.Message {
	var detail healthDetail
	if err := json.Unmarshal(e.Detail, &detail); err != nil {
		m.Err = fmt.Errorf("%s: detail cannot be read: %w", e.DetailType, err)
		return m
	}
	if detail.Service != "EC2" || detail.EventTypeCategory != "scheduledChange" {
		return m
	}
	m.Kind = cloud.ScheduledChange
	for _, entity := range detail.AffectedEntities {
		m.InstanceIDs = append(m.InstanceIDs, entity.EntityValue)
	}
	return m
}
