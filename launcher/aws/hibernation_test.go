package aws

import (
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const hibernationConfigured = "LaunchTemplateData.HibernationOptions.Configured"

// hibernating returns a Cloud whose m7g.large hibernates, according to EC2.
func hibernating(t *testing.T) (*wire, *Cloud) {
	t.Helper()
	w, c := newWire(t)
	market := *c.known.get()
	facts := market.facts["m7g.large"]
	facts.Hibernation = true
	market.facts["m7g.large"] = facts
	c.known.set(market)
	return w, c
}

// Instances that are launched for it are configured for hibernation where its prerequisites are met, and restart their kubelet after it. All others are not.
func TestLaunchForHibernation(t *testing.T) {
	w, c := hibernating(t)
	w.on("CreateFleet", fleet([]string{"i-1"}))
	in := launchInput("launch-1", 1, option("m7g.large", zoneA, "on-demand"), option("m7g.xlarge", zoneA, "on-demand"))
	for _, in.Hibernate = range []bool{true, false} {
		if _, err := c.Launch(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		in.LaunchID = "launch-2"
	}
	got := map[string]int{}
	for _, template := range w.made("CreateLaunchTemplate") {
		configured := template.Get(hibernationConfigured)
		got[configured]++
		if resumes := strings.Contains(decoded(t, template), "slipway-resume.service"); resumes != (configured == "true") {
			t.Errorf("configured for hibernation: %q, the kubelet is restarted after it: %v", configured, resumes)
		}
	}
	if got["true"] != 1 || got[""] != 1 {
		t.Errorf("launch templates by hibernation: %v, want one with it, and one without for m7g.xlarge and for the second launch", got)
	}
	for instanceType, want := range map[string]bool{"m7g.large": true, "m7g.xlarge": false} {
		if why := c.NoHibernation(in.Class, instanceType); (why == "") != want {
			t.Errorf("%s: %q", instanceType, why)
		}
	}
}

// A launch that EC2 refuses because of hibernation is followed by one without it, and the offering stays available.
func TestLaunchWithoutHibernation(t *testing.T) {
	const text = "The image does not support hibernation"
	for name, answer := range map[string]answer{
		"in the answer": fleet(nil, fleetError("UnsupportedHibernationConfiguration", text, "subnet-2")),
		"as an error":   refuse(400, "UnsupportedHibernationConfiguration", text),
	} {
		w, c := hibernating(t)
		w.on("CreateFleet", answer, fleet([]string{"i-1"}))
		in := launchInput("launch-1", 1, option("m7g.large", zoneA, "on-demand"))
		in.Hibernate = true
		out, err := c.Launch(t.Context(), in)
		if err != nil || len(out.Failures) != 1 || !out.Failures[0].Cause.Passing() {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		if why := c.NoHibernation(in.Class, "m7g.large"); !strings.Contains(why, text) {
			t.Errorf("%s: %q", name, why)
		}
		in.LaunchID = "launch-2"
		if out, err = c.Launch(t.Context(), in); err != nil || len(out.InstanceIDs) != 1 {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		templates := w.made("CreateLaunchTemplate")
		if n := len(templates); n != 2 || templates[0].Get(hibernationConfigured) != "true" || templates[1].Get(hibernationConfigured) != "" {
			t.Errorf("%s: %d launch templates, want one with hibernation and then one without", name, n)
		}
	}
}

// A stop says whether the memory is kept.
func TestHibernate(t *testing.T) {
	w, c := newWire(t)
	w.on("StopInstances", ok("<StopInstancesResponse/>"))
	var power cloud.Power = c
	for _, hibernate := range []bool{false, true} {
		if refused := power.StopInstances(t.Context(), []string{"i-1"}, hibernate); len(refused) > 0 {
			t.Fatal(refused)
		}
	}
	if calls := w.made("StopInstances"); calls[0].Get("Hibernate") != "" || calls[1].Get("Hibernate") != "true" {
		t.Errorf("%v", calls)
	}
}
