package nodepool_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// While a window is open the NodePool says so; windows that cannot be read are reported, and keep it ready.
func TestWindowIsReported(t *testing.T) {
	pool := validPool(t)
	night := time.Date(2026, time.November, 26, 3, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		text, status, message string
		at                    time.Duration
	}{
		{`[{schedule: "0 8 * * *", timeZone: Europe/Berlin, duration: 10h, limits: {cpu: "100"}}]`, "True", `open for 10h0m0s from "0 8 * * *", Europe/Berlin, limit cpu 100`, 6 * time.Hour},
		{`[{schedule: "0 8 * * *", timeZone: Europe/Berlin, duration: 10h, limits: {cpu: "100"}}]`, "", "", 0},
		{`[{schedule: "at eight", duration: 10h}]`, "False", "metadata.annotations[slipway.dev/windows][0].schedule", 0},
		{`[{schedule: "at eight", duration: 10h}, {schedule: "0 8 * * *", timeZone: Europe/Berlin, duration: 10h, limits: {cpu: "100"}}]`, "False", `Of the others one is open for 10h0m0s from "0 8 * * *"`, 6 * time.Hour},
		{"", "", "", 0},
	} {
		pool.Annotations = map[string]string{window.Annotation: step.text}
		nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready"), Now: night.Add(step.at)})
		got := pool.StatusConditions().Get(nodepool.ConditionWindow)
		switch {
		case step.status == "" && got != nil, step.status != "" && got == nil:
			t.Errorf("%q after %s: %v", step.text, step.at, got)
		case got != nil && (string(got.Status) != step.status || !strings.Contains(got.Message, step.message)):
			t.Errorf("%q after %s: %v", step.text, step.at, got)
		}
		if !pool.StatusConditions().Root().IsTrue() {
			t.Errorf("%q: the NodePool is not ready: %v", step.text, pool.Status.Conditions)
		}
	}
}
