package aws

import (
	"encoding/json"
	"fmt"
	"time"
)

// event is a message of EventBridge in a queue (EventBridge user guide, "AWS service event metadata").
type event struct {
	Version    string    `json:"version"`
	ID         string    `json:"id"`
	DetailType string    `json:"detail-type"`
	Source     string    `json:"source"`
	Account    string    `json:"account"`
	Time       time.Time `json:"time"`
	Region     string    `json:"region"`
	Resources  []string  `json:"resources"`
	Detail     any       `json:"detail"`
}

// The details of EC2's events (EC2 user guide, "Spot Instance interruption notices", "EC2 instance rebalance
// recommendations", "State change events for your instances").
type (
	interruptionDetail struct {
		InstanceID string `json:"instance-id"`
		Action     string `json:"instance-action"`
	}
	rebalanceDetail struct {
		InstanceID string `json:"instance-id"`
	}
	stateDetail struct {
		InstanceID string `json:"instance-id"`
		State      string `json:"state"`
	}
)

// healthDetail is the detail of an AWS Health event (AWS Health user guide, "Reference: AWS Health events schema").
type healthDetail struct {
	EventARN          string         `json:"eventArn"`
	Service           string         `json:"service"`
	EventTypeCode     string         `json:"eventTypeCode"`
	EventTypeCategory string         `json:"eventTypeCategory"`
	StartTime         string         `json:"startTime"`
	EndTime           string         `json:"endTime"`
	EventDescription  []healthText   `json:"eventDescription"`
	AffectedEntities  []healthEntity `json:"affectedEntities"`
}

type healthText struct {
	Language string `json:"language"`
	Latest   string `json:"latestDescription"`
}

type healthEntity struct {
	EntityValue string `json:"entityValue"`
}

// notify sends an event about an instance to the interruption queue. Without a queue of that name it does nothing.
func (s *Server) notify(source, detailType, instanceID string, detail any) {
	body, err := json.Marshal(event{
		Version: "0", ID: s.dice.uuid(), DetailType: detailType, Source: source,
		Account: s.cfg.AccountID, Time: time.Now().UTC().Truncate(time.Second), Region: s.cfg.Region,
		Resources: []string{s.instanceARN(instanceID)}, Detail: detail,
	})
	if err == nil {
		err = s.SendRaw(string(body))
	}
	if err != nil {
		s.cfg.Logger.V(2).Info("The event is lost", "instanceID", instanceID, "event", detailType, "err", err.Error())
	}
}

func (s *Server) notifyState(m machine) {
	s.notify("aws.ec2", "EC2 Instance State-change Notification", m.ID, stateDetail{m.ID, m.State})
}

func (s *Server) instanceARN(id string) string {
	return fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", s.cfg.Region, s.cfg.AccountID, id)
}

// SendRaw sends any text to the interruption queue, which need not be an event.
func (s *Server) SendRaw(body string) error {
	q, ok := s.queues.get(s.cfg.QueueName)
	if !ok {
		return fmt.Errorf("sending a message: queue %s does not exist", s.cfg.QueueName)
	}
	q.send(s.dice.uuid(), body, 0)
	return nil
}
