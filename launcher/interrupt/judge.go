package interrupt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// The reasons of NodeClaims that terminate because their instance is impaired: Karpenter's label values.
const (
	reasonSystem   = "system_status"
	reasonInstance = "instance_status"
	reasonEvent    = "event_status"
)

// categoryOf returns Karpenter's label value for the part of an instance's status that a reason is about.
func categoryOf(reason string) string {
	return map[string]string{reasonSystem: "SystemStatus", reasonInstance: "InstanceStatus", reasonEvent: "EventStatus"}[reason]
}

// impairedAtLeast is how long a status check must have failed: many failures are transient.
const impairedAtLeast = 2 * time.Minute

// Judgment is what follows from an instance's status.
type Judgment struct {
	// Reason is that of its NodeClaim's termination; empty if nothing follows.
	Reason string
	// Message is the text for people.
	Message string
	// Now means that the termination does not wait for pods: the machine does not work, so a drain would protect nothing.
	Now bool
}

// Judge returns what follows from the status of an instance: a termination at once if a check has failed for two minutes, an orderly one if
// EC2 has scheduled an event that stops or restarts it.
func Judge(s cloud.InstanceStatus, now time.Time) Judgment {
	for _, check := range []struct {
		reason, what string
		since        time.Time
	}{{reasonSystem, "system", s.SystemImpaired}, {reasonInstance, "instance", s.InstanceImpaired}} {
		if !check.since.IsZero() && now.Sub(check.since) >= impairedAtLeast {
			return Judgment{
				Reason: check.reason, Now: true,
				Message: fmt.Sprintf("the %s status check fails since %s", check.what, check.since.UTC().Format(time.RFC3339)),
			}
		}
	}
	for _, e := range s.Events {
		if disruptive(e) {
			return Judgment{Reason: reasonEvent, Message: fmt.Sprintf("EC2 scheduled %s: %s", e.Code, e.Description)}
		}
	}
	return Judgment{}
}

// disruptive reports whether the event stops or restarts the instance, and is not over: EC2 lists past events for a while (EC2 user guide,
// "Scheduled events for your instances").
func disruptive(e cloud.ScheduledEvent) bool {
	over := strings.HasPrefix(e.Description, "[Completed]") || strings.HasPrefix(e.Description, "[Canceled]")
	return !over && slices.Contains([]string{
		"instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop",
	}, e.Code)
}
