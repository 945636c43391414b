package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

const (
	// assumedBoot and assumedStart are what a node is assumed to need that is launched, or started, where the cluster has none to learn from.
	assumedBoot, assumedStart = 45 * time.Second, 25 * time.Second
	// assumedVolumes is the share of a node's price that its volumes are, where the cluster has no node of the NodePool.
	assumedVolumes = 0.02
	// largestBuffer is the largest buffer that is asked about, in nodes.
	largestBuffer = 64
)

// BufferAnswer is what a buffer of one NodePool would have cost and saved in the time that the record of decisions covers.
type BufferAnswer struct {
	// NodePool of the nodes.
	NodePool string `json:"nodePool"`
	// Nodes is the size of the buffer.
	Nodes int `json:"nodes"`
	// Arrivals is how many nodes were launched for pods that waited, and Had how many of them the buffer would have had.
	Arrivals int `json:"arrivals"`
	// Had is described at Arrivals.
	Had int `json:"had"`
	// SavedSeconds is how much less the pods would have waited, the sum over all, with a buffer that runs; StandbySavedSeconds with one that sleeps.
	SavedSeconds float64 `json:"savedPodSeconds"`
	// StandbySavedSeconds is described at SavedSeconds.
	StandbySavedSeconds float64 `json:"standbySavedPodSeconds"`
	// PerDay is what the buffer costs while it waits, in USD per day, if it runs; StandbyPerDay if it sleeps.
	PerDay float64 `json:"usdPerDay"`
	// StandbyPerDay is described at PerDay.
	StandbyPerDay float64 `json:"standbyUSDPerDay"`
}

// BufferReport is what buffers would have cost and saved, and in which time.
type BufferReport struct {
	// Since is when the record of decisions begins, a day ago at most; Until when it was read.
	Since time.Time `json:"since"`
	// Until is described at Since.
	Until time.Time `json:"until"`
	// Answers by NodePool, and by size.
	Answers []BufferAnswer `json:"answers"`
	// NoRecord means that there is no record of decisions, so that nothing is known of what was launched.
	NoRecord bool `json:"noRecord,omitempty"`
}

// ReportBuffers returns the answers of BufferAnswers with the time that the decisions, read now, cover. decisions is nil where there is no record of them.
func ReportBuffers(decisions []Decision, claims []*karpv1.NodeClaim, now time.Time) BufferReport {
	out := BufferReport{Since: now, Until: now, Answers: BufferAnswers(decisions, claims), NoRecord: decisions == nil}
	for _, d := range decisions {
		if d.At.Before(out.Since) {
			out.Since = d.At
		}
	}
	return out
}

// arrival is a node that was launched for pods that waited.
type arrival struct {
	at   time.Time
	pods int
}

// BufferAnswers returns what buffers of one, two, four nodes and so on would have cost and saved, by NodePool: up to the size that would have had all nodes
// which were launched for pods that waited. What is launched in place of a node that was taken is there when it has booted.
func BufferAnswers(decisions []Decision, claims []*karpv1.NodeClaim) []BufferAnswer {
	arrivals, prices := map[string][]arrival{}, map[string][]float64{}
	for _, d := range decisions {
		if d.What == Launched && d.Pods > 0 {
			arrivals[d.NodePool] = append(arrivals[d.NodePool], arrival{d.At, d.Pods})
			prices[d.NodePool] = append(prices[d.NodePool], d.Price)
		}
	}
	boot, start := middle(bootsOf(claims).all, assumedBoot), middle(startsOf(claims), assumedStart)
	out := []BufferAnswer{}
	for pool, list := range arrivals {
		slices.SortFunc(list, func(a, b arrival) int { return a.at.Compare(b.at) })
		slices.Sort(prices[pool])
		price := prices[pool][len(prices[pool])/2]
		volumes := price * volumesShare(pool, claims)
		for n := 1; n <= largestBuffer; n *= 2 {
			had, pods := taken(list, n, boot)
			out = append(out, BufferAnswer{
				NodePool: pool, Nodes: n, Arrivals: len(list), Had: had,
				SavedSeconds: float64(pods) * boot.Seconds(), StandbySavedSeconds: float64(pods) * max(0, boot-start).Seconds(),
				PerDay: float64(n) * price * 24, StandbyPerDay: float64(n) * volumes * 24,
			})
			if had == len(list) {
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b BufferAnswer) int { return strings.Compare(a.NodePool, b.NodePool) })
	return out
}

// taken returns how many of the arrivals find a node of the buffer, and for how many pods.
func taken(list []arrival, size int, refill time.Duration) (had, pods int) {
	free := make([]time.Time, size) // When each place of the buffer has a node.
	for _, a := range list {
		i := slices.IndexFunc(free, func(at time.Time) bool { return !at.After(a.at) })
		if i < 0 {
			continue
		}
		free[i] = a.at.Add(refill)
		had, pods = had+1, pods+a.pods
	}
	return had, pods
}

// startsOf returns how long stopped instances needed from their start until their nodes were initialized, sorted.
func startsOf(claims []*karpv1.NodeClaim) (out []time.Duration) {
	for _, claim := range claims {
		initialized := conditions.Claim(claim, karpv1.ConditionTypeInitialized)
		if s := record.StandbyOf(claim); s.State == record.StandbyAwake && initialized.IsTrue() && initialized.LastTransitionTime.After(s.Since) {
			out = append(out, initialized.LastTransitionTime.Sub(s.Since))
		}
	}
	slices.Sort(out)
	return out
}

// middle returns the median of sorted durations, or what is assumed where there is none.
func middle(sorted []time.Duration, assumed time.Duration) time.Duration {
	if len(sorted) == 0 {
		return assumed
	}
	return sorted[len(sorted)/2]
}

// volumesShare returns which share of the price of a NodePool's nodes is that of their volumes.
func volumesShare(pool string, claims []*karpv1.NodeClaim) float64 {
	var volumes, all float64
	for _, claim := range claims {
		cost, ok := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation])
		if ok && claim.Labels[karpv1.NodePoolLabelKey] == pool {
			volumes, all = volumes+cost.Volumes, all+cost.Total()
		}
	}
	if all <= 0 {
		return assumedVolumes
	}
	return volumes / all
}

// WriteBufferAnswers writes the answers as a table. since is when the record of decisions begins.
func WriteBufferAnswers(w io.Writer, answers []BufferAnswer, since, now time.Time) error {
	if len(answers) == 0 {
		_, err := fmt.Fprintf(w, "No node was launched for pods that waited in the last %s.\n", now.Sub(since).Round(time.Minute))
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NODEPOOL\tBUFFER\tWOULD HAVE HAD\tAWAKE: USD/DAY\tPOD SECONDS SAVED\tSTANDBY: USD/DAY\tPOD SECONDS SAVED")
	for _, a := range answers {
		fmt.Fprintf(t, "%s\t%s\t%d of %d nodes\t%.2f\t%.0f\t%.2f\t%.0f\n", a.NodePool, catalog.CountText(a.Nodes, "node"), a.Had, a.Arrivals,
			a.PerDay, a.SavedSeconds, a.StandbyPerDay, a.StandbySavedSeconds)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "By the nodes that were launched for pods that waited in the last %s.\n", now.Sub(since).Round(time.Minute))
	return err
}
