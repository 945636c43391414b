package window_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/internal/window"
)

func sleepOf(text string) map[string]string { return map[string]string{window.SleepAnnotation: text} }

func asleep(t *testing.T, text string) window.Windows {
	t.Helper()
	out, err := window.ReadSleep("shop", sleepOf(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Windows that touch or overlap are one sleep.
func TestSpan(t *testing.T) {
	const nights = `- {schedule: "0 20 * * *", timeZone: Europe/Berlin, duration: 11h}`
	const weekends = nights + "\n" + `- {schedule: "0 0 * * sat,sun", timeZone: Europe/Berlin, duration: 24h}`
	for _, c := range []struct{ windows, now, since, until string }{
		{nights, "2026-11-26T12:00:00Z", "", ""},
		{nights, "2026-11-26T19:00:00Z", "2026-11-26T19:00:00Z", "2026-11-27T06:00:00Z"},
		{nights, "2026-11-27T05:59:59Z", "2026-11-26T19:00:00Z", "2026-11-27T06:00:00Z"},
		{nights, "2026-11-27T06:00:00Z", "", ""},
		// From Friday evening to Monday morning.
		{weekends, "2026-11-27T20:00:00Z", "2026-11-27T19:00:00Z", "2026-11-30T06:00:00Z"},
		{weekends, "2026-11-28T12:00:00Z", "2026-11-27T23:00:00Z", "2026-11-30T06:00:00Z"},
		// One that opens again before it closes.
		{`- {schedule: "0 * * * *", duration: 90m}`, "2026-11-26T12:10:00Z", "2026-11-26T11:00:00Z", "2026-11-27T08:30:00Z"},
	} {
		span, ok := asleep(t, c.windows).Span(at(t, c.now))
		if ok != (c.since != "") {
			t.Errorf("%s at %s: %t", c.windows, c.now, ok)
			continue
		}
		if ok && (!span.Since.Equal(at(t, c.since)) || !span.Until.Equal(at(t, c.until))) {
			t.Errorf("%s at %s: %s to %s, want %s to %s", c.windows, c.now, span.Since.UTC(), span.Until.UTC(), c.since, c.until)
		}
	}
}

// Pods wake as long before the end as they need, and from the time on at which they could wake none is evicted.
func TestLead(t *testing.T) {
	for _, c := range []struct{ long, lead, wakes, evicts time.Duration }{
		{11 * time.Hour, time.Minute, time.Minute, 10 * time.Minute},
		{11 * time.Hour, time.Hour, 10 * time.Minute, 10 * time.Minute},
		{4 * time.Minute, time.Minute, time.Minute, 2 * time.Minute},
		{time.Minute, time.Minute, 30 * time.Second, 30 * time.Second},
	} {
		since := time.Unix(0, 0)
		span := window.Span{Since: since, Until: since.Add(c.long)}
		if got := span.Until.Sub(span.Wakes(c.lead)); got != c.wakes {
			t.Errorf("%+v: wakes %s before the end", c, got)
		}
		last := span.Until.Add(-c.evicts)
		if span.Evicts(last) || !span.Evicts(last.Add(-time.Second)) {
			t.Errorf("%+v: evicts until another time", c)
		}
	}
}

// A window with a mistake is left out and named, and the others hold: of a sleep and of an object alike.
func TestGoodWindowsHold(t *testing.T) {
	const mixed = `- {schedule: "0 25 * * *", duration: 1h}
- {schedule: "0 5 * * *", duration: 1h}
- {schedule: "0 6 * * *", duration: 1h, other: 1}
- {schedule: "0 7 * * *", duration: 2h}`
	wrong := []string{`[0].schedule: "0 25 * * *"`, `[2]: `, `unknown field "other"`}
	for name, read := range map[string]func() (window.Windows, error){
		window.SleepAnnotation: func() (window.Windows, error) { return window.ReadSleep("shop", sleepOf(mixed)) },
		window.Annotation:      func() (window.Windows, error) { return window.Read(map[string]string{window.Annotation: mixed}) },
	} {
		got, err := read()
		if len(got) != 2 || got[0].Schedule != "0 5 * * *" || got[1].Schedule != "0 7 * * *" || err == nil {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		for _, part := range wrong {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v lacks %s", name, err, part)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %v", name, err)
		}
	}
	with, err := window.ReadSleep("shop", sleepOf(`- {schedule: "0 5 * * *", duration: 1h, replicas: 0}
- {schedule: "0 7 * * *", duration: 2h}`))
	if len(with) != 1 || err == nil {
		t.Errorf("a sleep with replicas: %v, %v", with, err)
	}
	limits := window.Limits(map[string]string{window.Annotation: mixed + `
- {schedule: "@daily", duration: 24h, limits: {cpu: "7"}}`}, nil, at(t, "2026-11-26T12:00:00Z"))
	if cpu := limits["cpu"]; cpu.String() != "7" {
		t.Errorf("limits beside a window with a mistake: %v", limits)
	}
}

// A sleep that cannot be read is none, and the error has the field.
func TestReadSleep(t *testing.T) {
	if list, err := window.ReadSleep("shop", map[string]string{window.Annotation: "nonsense"}); list != nil || err != nil {
		t.Errorf("without the annotation: %v, %v", list, err)
	}
	for _, c := range []struct{ namespace, text, want string }{
		{"shop", `- {schedule: "0 25 * * *", duration: 1h}`, "annotations[slipway.dev/sleep][0].schedule"},
		{"shop", `- {schedule: "0 5 * * *", timeZone: Mars/Olympus, duration: 1h}`, `timeZone: "Mars/Olympus" is no time zone`},
		{"shop", `- {schedule: "0 5 * * *", duration: 1h, replicas: 0}`, "a sleep has schedule, timeZone and duration alone"},
		{"shop", "true", "cannot unmarshal"},
		{"kube-system", `- {schedule: "0 5 * * *", duration: 1h}`, "kube-system does not sleep"},
	} {
		list, err := window.ReadSleep(c.namespace, sleepOf(c.text))
		if err == nil || list != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want an error with %q", c.text, list, err, c.want)
		}
	}
}
