package cases

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The sides of a comparison.
const (
	// Stock is Kubernetes' default profile, or the case's own.
	Stock = "stock"
	// Slipway is the profile that slipway ships.
	Slipway = "slipway"
)

// Noise is how far slipway may be below stock in the median of all rounds: two runs of one side differ by as much on a busy machine.
const Noise = 0.9

// Figures are what one side did in one run.
type Figures struct {
	// Average, P50 and P99 are pods bound per second: of the whole run, and of its seconds. They are NaN where all pods were bound within the
	// first second: Kubernetes then counts none.
	Average, P50, P99 float64
	// AttemptP50 and AttemptP99 are milliseconds from a pod's leaving the queue to the end of its binding.
	AttemptP50, AttemptP99 float64
	// Batched counts the pods that Kubernetes' opportunistic batching placed by another pod's result.
	Batched int64
	// Repeated counts the pods that slipway did not try on the nodes because one that is alike had failed; zero for stock.
	Repeated int64
	// Hinted counts the pods that slipway placed on one of the best nodes for a pod that is alike; zero for stock.
	Hinted int64
	// Seconds of processor time that the process used, API server included.
	Seconds float64
}

// Measured reads what scheduler_perf has written about one run.
func Measured(text []byte) (Figures, error) {
	var items struct {
		Items []struct {
			Data   map[string]float64 `json:"data"`
			Labels map[string]string  `json:"labels"`
		} `json:"dataItems"`
	}
	if err := json.Unmarshal(text, &items); err != nil {
		return Figures{}, fmt.Errorf("reading figures: %w", err)
	}
	var out Figures
	for _, item := range items.Items {
		switch {
		case item.Labels["Metric"] == "SchedulingThroughput":
			out.Average, out.P50, out.P99 = item.Data["Average"], item.Data["Perc50"], item.Data["Perc99"]
		case item.Labels["Metric"] == "scheduler_scheduling_attempt_duration_seconds" && item.Labels["result"] == "scheduled":
			out.AttemptP50, out.AttemptP99 = item.Data["Perc50"], item.Data["Perc99"]
		}
	}
	if out.Average == 0 {
		out.Average, out.P50, out.P99 = math.NaN(), math.NaN(), math.NaN()
	}
	return out, nil
}

// Compared is what both sides did in one case.
type Compared struct {
	// Case is what was run.
	Case Case
	// Rounds of both sides.
	Rounds []Round
}

// Round is one run of each side.
type Round struct {
	// Stock and Slipway are the two sides.
	Stock, Slipway Figures
}

// Ratio returns the median of slipway's average by stock's, round by round. Of two in the middle it is the smaller.
func (c Compared) Ratio() float64 {
	return c.median(func(r Round) float64 { return r.Slipway.Average / r.Stock.Average })
}

func (c Compared) median(of func(Round) float64) float64 {
	if len(c.Rounds) == 0 {
		return math.NaN()
	}
	var values []float64
	for _, r := range c.Rounds {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// stock and slipway return the medians of the sides' averages.
func (c Compared) stock() float64 {
	return c.median(func(r Round) float64 { return r.Stock.Average })
}

func (c Compared) slipway() float64 {
	return c.median(func(r Round) float64 { return r.Slipway.Average })
}

// Wrong returns what is worse than it may be: below stock by more than noise, or below a threshold that stock reaches; empty for nothing, or
// where a side was done within a second.
func (c Compared) Wrong() string {
	if math.IsNaN(c.stock()) || math.IsNaN(c.slipway()) {
		return ""
	}
	if ratio := c.Ratio(); ratio < Noise {
		return fmt.Sprintf("%s/%s: slipway binds %.2f times the pods per second of stock, want %.1f or more", c.Case.Name, c.Case.Workload, ratio, Noise)
	}
	if least := c.Case.Threshold; least > 0 && c.slipway() < least && c.stock() >= least {
		return fmt.Sprintf("%s/%s: slipway binds %.0f pods per second, below Kubernetes' threshold of %.0f, which stock reaches with %.0f",
			c.Case.Name, c.Case.Workload, c.slipway(), least, c.stock())
	}
	return ""
}

// Table returns the comparison in Markdown: medians of all rounds.
func Table(all []Compared) string {
	var out strings.Builder
	out.WriteString("| case | workload | stock pods/s | slipway pods/s | ratio | threshold | stock, slipway reach it | attempt p50, p99 in ms: stock | slipway | CPU s: stock | slipway | batched: stock | slipway | repeated | hinted |\n")
	out.WriteString("|---|---|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, c := range all {
		m := func(of func(Round) float64) float64 { return c.median(of) }
		fmt.Fprintf(&out, "| %s | %s | %.0f | %.0f | %.2f | %s | %.1f, %.1f | %.1f, %.1f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f |\n",
			c.Case.Name, c.Case.Workload, c.stock(), c.slipway(), c.Ratio(), c.reached(),
			m(func(r Round) float64 { return r.Stock.AttemptP50 }), m(func(r Round) float64 { return r.Stock.AttemptP99 }),
			m(func(r Round) float64 { return r.Slipway.AttemptP50 }), m(func(r Round) float64 { return r.Slipway.AttemptP99 }),
			m(func(r Round) float64 { return r.Stock.Seconds }), m(func(r Round) float64 { return r.Slipway.Seconds }),
			m(func(r Round) float64 { return float64(r.Stock.Batched) }), m(func(r Round) float64 { return float64(r.Slipway.Batched) }),
			m(func(r Round) float64 { return float64(r.Slipway.Repeated) }), m(func(r Round) float64 { return float64(r.Slipway.Hinted) }))
	}
	return out.String()
}

// reached returns two columns: the threshold, and which side reaches it.
func (c Compared) reached() string {
	if c.Case.Threshold == 0 {
		return "none | "
	}
	word := map[bool]string{true: "yes", false: "no"}
	return fmt.Sprintf("%.0f | %s, %s", c.Case.Threshold, word[c.stock() >= c.Case.Threshold], word[c.slipway() >= c.Case.Threshold])
}
