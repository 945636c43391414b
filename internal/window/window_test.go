package window_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func annotated(text string) map[string]string { return map[string]string{window.Annotation: text} }

func read(t *testing.T, text string) window.Windows {
	t.Helper()
	out, err := window.Read(annotated(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Working hours in Berlin follow its clock, in summer as in winter. Both ends are known before.
func TestOpen(t *testing.T) {
	w := read(t, `- {schedule: "0 8 * * mon-fri", timeZone: Europe/Berlin, duration: 10h, replicas: 3}`)
	for now, want := range map[string]struct {
		open bool
		next string
	}{
		"2026-11-26T06:59:59Z": {false, "2026-11-26T07:00:00Z"}, // A Thursday.
		"2026-11-26T07:00:00Z": {true, "2026-11-26T17:00:00Z"},
		"2026-11-26T16:59:59Z": {true, "2026-11-26T17:00:00Z"},
		"2026-11-26T17:00:00Z": {false, "2026-11-27T07:00:00Z"},
		"2026-11-28T10:00:00Z": {false, "2026-11-30T07:00:00Z"}, // A Saturday.
		"2026-07-02T06:00:00Z": {true, "2026-07-02T16:00:00Z"},
		"2026-07-02T05:59:00Z": {false, "2026-07-02T06:00:00Z"},
	} {
		if got := w.Open(at(t, now)); (got != nil) != want.open {
			t.Errorf("%s: open %v", now, got)
		}
		if got := w.Next(at(t, now)); !got.Equal(at(t, want.next)) {
			t.Errorf("%s: next %s, want %s", now, got.UTC(), want.next)
		}
	}
}

// Of several that are open the last one holds.
func TestLastOneHolds(t *testing.T) {
	text := `
- {schedule: "@daily", duration: 24h, replicas: 1, limits: {cpu: "1"}}
- {schedule: "0 12 * * *", duration: 1h, replicas: 2}
`
	spec := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("8Gi")}
	for now, want := range map[string]struct {
		replicas int64
		cpu      string
	}{"2026-11-26T11:00:00Z": {1, "1"}, "2026-11-26T12:30:00Z": {2, "8"}, "2026-11-26T13:00:00Z": {1, "1"}} {
		limits := window.Limits(annotated(text), spec, at(t, now))
		if got := window.Replicas(annotated(text), 7, at(t, now)); got != want.replicas || limits.Cpu().String() != want.cpu || limits.Memory().String() != "8Gi" {
			t.Errorf("%s: replicas %d, limits %v", now, got, limits)
		}
	}
	if spec.Cpu().String() != "8" {
		t.Error("the limits of the spec were changed")
	}
	if got := window.Replicas(nil, 7, time.Now()); got != 7 {
		t.Errorf("without windows: %d", got)
	}
	if got := window.Replicas(annotated("- x"), 7, time.Now()); got != 7 {
		t.Errorf("with windows that cannot be read: %d", got)
	}
}

// A limit in USD is one like any other.
func TestLimitInUSD(t *testing.T) {
	text := `- {schedule: "0 20 * * *", duration: 10h, limits: {slipway.dev/usd-per-hour: "0.5"}}`
	spec := corev1.ResourceList{catalog.LimitUSD: resource.MustParse("12.5"), "cpu": resource.MustParse("100")}
	for now, want := range map[string]int64{"2026-11-26T19:59:00Z": 12_500_000, "2026-11-26T20:00:00Z": 500_000} {
		limits := window.Limits(annotated(text), spec, at(t, now))
		if got := catalog.MicroUSDOf(limits[catalog.LimitUSD]); got != want || limits.Cpu().Value() != 100 {
			t.Errorf("%s: %d millionths of a USD, want %d; limits %v", now, got, want, limits)
		}
	}
}

// What cannot be read is refused with its field.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{schedule: "@daily"}`:                                               "cannot unmarshal",
		`- {schedule: "@daily"}`:                                             "[0].duration: 0s is not more than 0",
		`- {schedule: "@daily", duration: -1h}`:                              "[0].duration: -1h0m0s is not more than 0",
		`- {schedule: "@daily", duration: 99999h}`:                           "[0].duration",
		`- {schedule: "@daily", duration: 1h, timeZone: Mars/Olympus}`:       `[0].timeZone: "Mars/Olympus" is no time zone`,
		`- {schedule: "@daily", duration: 1h, timeZone: Local}`:              "[0].timeZone",
		`- {schedule: "TZ=0", duration: 1h}`:                                 "[0].schedule: the time zone belongs in timeZone",
		`- {schedule: "CRON_TZ=UTC", duration: 1h}`:                          "[0].schedule: the time zone belongs in timeZone",
		`- {schedule: "* * *", duration: 1h}`:                                `[0].schedule: "* * *": expected exactly 5 fields`,
		`- {schedule: "0 0 30 2 *", duration: 1h}`:                           `[0].schedule: "0 0 30 2 *" never comes`,
		`- {schedule: "@daily", duration: 1h, replicas: -1}`:                 "[0].replicas: replicas and percentage are not negative",
		`- {schedule: "@daily", duration: 1h, limits: {cpu: "-1"}}`:          "[0].limits[cpu]: -1: a limit is not negative",
		`- {schedule: "@daily", duration: 1h, limits: {cpu: many}}`:          "quantities must match",
		`- {schedule: "@daily", duration: 1h, limits: {slipway.dev/usd: 1}}`: "[0].limits: slipway.dev/usd: slipway.dev/usd-per-hour is the only limit of slipway's own",
		`- {schedule: "@daily", duration: 1h, usd: 5}`:                       `unknown field`,
		strings.Repeat("- {schedule: \"@daily\", duration: 1h}\n", 21):       "it has 21 windows",
		strings.Repeat(" ", 5000) + "x":                                      "it has 5001 bytes",
		"- &a [" + strings.Repeat("x,", 100) + "]\n- &b [" + strings.Repeat("*a,", 100) + "]\n- [" + strings.Repeat("*b,", 100) + "]": "metadata.annotations[slipway.dev/windows]: ",
	} {
		if _, err := window.Read(annotated(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v", text, err)
		}
	}
	if got, err := window.Read(annotated(" \n")); got != nil || err != nil {
		t.Errorf("an empty one: %v, %v", got, err)
	}
}
