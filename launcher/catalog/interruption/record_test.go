package interruption_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
)

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

func large(zone string) interruption.Offering {
	return interruption.Offering{InstanceType: "m5.large", Zone: zone}
}

// period is so many running instances for some hours, of which some are interrupted at the end.
type period struct{ hours, running, interrupted int }

// observe observes a period of the offering, and returns its end.
func observe(r *interruption.Record, o interruption.Offering, from time.Time, p period) time.Time {
	hours, running, interrupted := p.hours, p.running, p.interrupted
	for h := 0; h <= hours; h++ {
		var nodes []interruption.Node
		for i := range running {
			nodes = append(nodes, interruption.Node{ID: fmt.Sprint(from, i), Offering: o, Since: from, Interrupted: h == hours && i < interrupted})
		}
		r.Observe(from.Add(time.Duration(h)*time.Hour), nodes)
	}
	return from.Add(time.Duration(hours) * time.Hour)
}

// Without observations the rate is the prior's; with many it is what was seen; each offering learns by itself.
func TestRateIsLearned(t *testing.T) {
	r := &interruption.Record{}
	prior := r.PerHour(large("a"), interruption.Priors{})
	if want := -math.Log(0.95) / 730; math.Abs(prior-want) > 1e-12 {
		t.Errorf("the prior is %v per hour, want %v", prior, want)
	}
	observe(r, large("a"), noon(), period{5, 4, 3})
	after := r.PerHour(large("a"), interruption.Priors{})
	if after < 0.02 || after > 0.03 {
		t.Errorf("3 interruptions in 20 hours beside a prior of 100 hours make %v per hour, want about 3/120", after)
	}
	if other := r.PerHour(large("b"), interruption.Priors{}); other != prior {
		t.Errorf("the other zone has %v, want the prior %v", other, prior)
	}
	at := noon().Add(5 * time.Hour)
	for range 60 {
		at = observe(r, large("c"), at, period{10, 10, 1})
	}
	if got := r.PerHour(large("c"), interruption.Priors{}); got < 0.008 || got > 0.0115 {
		t.Errorf("1 interruption in 100 hours, again and again, makes %v per hour, want about 0.01", got)
	}
	quiet := &interruption.Record{}
	observe(quiet, large("d"), noon(), period{100, 10, 0})
	if got := quiet.PerHour(large("d"), interruption.Priors{}); got > prior/5 {
		t.Errorf("1000 hours without any make %v per hour, want far less than the prior %v", got, prior)
	}
}

// An interruption is counted once, however long its node takes to terminate, and across a restart. It is forgotten in the end.
func TestInterruptionIsCountedOnceAndForgotten(t *testing.T) {
	r := &interruption.Record{}
	node := interruption.Node{ID: "n", Offering: large("a"), Since: noon(), Interrupted: true}
	if !r.Observe(noon(), []interruption.Node{node}) {
		t.Error("the interruption is no news")
	}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := interruption.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if again.Observe(noon().Add(time.Minute), []interruption.Node{node}) {
		t.Error("the interruption is news again after a restart")
	}
	if n := again.Seen[large("a")].Interruptions; n < 0.99 || n > 1 {
		t.Errorf("%v interruptions, want 1", n)
	}
	again.Observe(noon().Add(interruption.HalfLife+time.Minute), nil)
	if n := again.Seen[large("a")].Interruptions; n < 0.49 || n > 0.51 {
		t.Errorf("%v interruptions after the half-life, want 0.5", n)
	}
	again.Observe(noon().Add(20*interruption.HalfLife), nil)
	if len(again.Seen) != 0 {
		t.Errorf("%v is left after twenty half-lives", again.Seen)
	}
}

// A record is small, whatever it sees, keeps what says most, and is the same after it was stored.
func TestRecordIsBounded(t *testing.T) {
	r, nodes := &interruption.Record{}, []interruption.Node(nil)
	for i := range 3000 {
		nodes = append(nodes, interruption.Node{ID: fmt.Sprint(i), Offering: interruption.Offering{InstanceType: fmt.Sprintf("x%d.large", i), Zone: "us-east-1a"}, Since: noon(), Interrupted: i%100 == 0})
	}
	r.Observe(noon(), nil)
	r.Observe(noon().Add(time.Hour), nodes)
	if len(r.Seen) != 1000 {
		t.Errorf("%d offerings", len(r.Seen))
	}
	for i := 0; i < 3000; i += 100 {
		if r.Seen[nodes[i].Offering].Interruptions != 1 {
			t.Errorf("the interruption of %s is forgotten", nodes[i].Offering)
		}
	}
	text, err := r.Encode()
	if err != nil || len(text) > 100<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	back, err := interruption.Decode(text)
	if err != nil || cmp.Diff(*r, back) != "" {
		t.Errorf("another record after it was stored: %v %s", err, cmp.Diff(*r, back))
	}
	for _, bad := range []string{"{", `{"seen":{"m5.large":{}}}`, `{"seen":{"m5.large/a":{"hours":-1}}}`} {
		if _, err := interruption.Decode(bad); err == nil {
			t.Errorf("%s is read without an error", bad)
		}
	}
}

func TestParsePriors(t *testing.T) {
	p, faults, err := interruption.ParsePriors(`default: 10%
m5.large: ">20%"
c5.large: 5-10%
c5.xlarge: 3
often.large: often
all.large: 100%
nan.large: .nan
inf.large: .inf
negative.large: -5%
nothing.large:
list.large: [5%]
c5.large: 3%
`)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, fault := range faults {
		got += fault.Error() + "\n"
	}
	const expected = ": a bucket such as 5-10%, or a percentage from 0 up to 100, is expected; it is left out\n"
	want := `reading priors: line 5: often.large: "often"` + expected +
		`reading priors: line 6: all.large: "100%"` + expected +
		`reading priors: line 7: nan.large: ".nan"` + expected +
		`reading priors: line 8: inf.large: ".inf"` + expected +
		`reading priors: line 9: negative.large: "-5%"` + expected +
		`reading priors: line 10: nothing.large: ""` + expected +
		`reading priors: line 11: list.large: ""` + expected +
		"reading priors: line 12: c5.large: it has an entry before this one; it is left out\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	for name, monthly := range map[string]float64{"m5.large": 0.25, "c5.large": 0.075, "c5.xlarge": 0.03, "other": 0.1, "nan.large": 0.1} {
		if got, want := p.PerHour(name), -math.Log(1-monthly)/730; math.Abs(got-want) > 1e-12 {
			t.Errorf("%s has %v per hour, want %v", name, got, want)
		}
	}
	for _, text := range []string{"- a list", "text", "a: [", "a: b: c"} {
		if _, _, err := interruption.ParsePriors(text); err == nil {
			t.Errorf("%q is read without an error", text)
		}
	}
	for _, text := range []string{"", "# nothing", "{}", "null"} {
		if _, faults, err := interruption.ParsePriors(text); err != nil || len(faults) > 0 {
			t.Errorf("%q has faults: %v, %v", text, faults, err)
		}
	}
}

// The loss is on spot offerings alone, and the list that it came from stays as it was.
func TestApply(t *testing.T) {
	list := []catalog.InstanceType{{Name: "m5.large", Offerings: []catalog.Offering{
		{Zone: "a", CapacityType: "spot", Price: 1}, {Zone: "a", CapacityType: "on-demand", Price: 2}, {Zone: "b", CapacityType: "spot", Price: 1},
	}}}
	known := interruption.Known{Record: interruption.Record{Seen: map[interruption.Offering]interruption.Seen{large("a"): {Interruptions: 50, Outages: interruption.Outages{Last: noon(), Lasted: 1}}}}}
	got := known.Apply(list, 0.01)
	prior := known.PerHour(large("b")) * 0.01
	for i, want := range []float64{0.005 + prior, 0, prior} {
		if at := got[0].Offerings[i].SettlesAt; at.Equal(noon().Add(interruption.SettleAfter)) != (i == 0) {
			t.Errorf("offering %d settles at %v", i, at)
		}
		if got, want := got[0].Offerings[i].Lasts, []time.Duration{90 * time.Minute, 0, 0}[i]; got != want {
			t.Errorf("offering %d lasts %v, want %v", i, got, want)
		}
		if math.Abs(got[0].Offerings[i].LossPerPod-want) > 1e-12 || list[0].Offerings[i].LossPerPod != 0 {
			t.Errorf("offering %d: %+v", i, got[0].Offerings[i])
		}
	}
}
