package interruptions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
)

// scorer is an EC2 that has scores, or an error.
type scorer struct {
	asked  []string
	scores map[string]int
	err    error
}

// PlacementScores implements Scorer.
func (s *scorer) PlacementScores(_ context.Context, instanceTypes []string) (map[string]int, error) {
	s.asked = append(s.asked, strings.Join(instanceTypes, " "))
	return s.scores, s.err
}

// sizes are three instance types of a family in two zones.
func sizes(family string, perCPU float64) (out []catalog.InstanceType) {
	for _, size := range []string{"large", "xlarge", "2xlarge"} {
		out = append(out, catalog.InstanceType{Name: family + "." + size, Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}, Offerings: []catalog.Offering{
			{Zone: "a", ZoneID: "az1", CapacityType: "spot", Price: 2 * perCPU, Available: true},
			{Zone: "b", ZoneID: "az2", CapacityType: "spot", Price: 2 * perCPU},
			{Zone: "b", ZoneID: "az2", CapacityType: "on-demand", Price: 9},
		}})
	}
	return out
}

// EC2 is asked about families with nodes, then about the cheapest ones, of three types and more. A low score raises the expected loss. The scores outlast a
// restart, after which they are not asked for again at once.
func TestScoresAreAskedForAndKept(t *testing.T) {
	w, ec2, start := newWorld(t), &scorer{scores: map[string]int{"az1": 10, "az2": 4, "az9": 1, "": 40}}, time.Now().Add(-time.Hour)
	w.recorder.config.Scorer = ec2
	w.list = slices.Concat(sizes("m5", 3), sizes("c5", 1), sizes("r5", 2), w.list[:1])
	w.list = append(w.list, catalog.InstanceType{Name: "x1.large", Offerings: w.list[0].Offerings})
	w.spot("n1", start, false)
	prior := w.losses()
	for i := range 10 {
		w.recorder.round(t.Context(), start.Add(time.Duration(i)*period))
	}
	want := []string{"m5.2xlarge m5.large m5.xlarge", "c5.2xlarge c5.large c5.xlarge", "r5.2xlarge r5.large r5.xlarge"}
	if !slices.Equal(ec2.asked, want) {
		t.Errorf("asked about %q, want %q", ec2.asked, want)
	}
	got := w.losses()
	if ratio := got[1] / prior[1]; ratio < 63 || ratio > 65 || got[0] > prior[0] || got[2] != 0 {
		t.Errorf("losses %v, were %v; want 64 times as much with a score of 4, and no change with one of 10", got, prior)
	}
	w.restart()
	w.recorder.config.Scorer = ec2
	w.losses()
	w.recorder.round(t.Context(), start.Add(time.Minute*10))
	if again := w.losses(); again[1] != got[1] || len(ec2.asked) != 3 {
		t.Errorf("losses %v after a restart, were %v; EC2 was asked %d times", again, got, len(ec2.asked))
	}
	w.restart() // Without the setting.
	w.recorder.round(t.Context(), start.Add(time.Minute*20))
	w.recorder.round(t.Context(), start.Add(time.Minute*31))
	if again := w.losses(); again[1] > 2*prior[1] || w.configMap().Data[interruption.ScoresKey] != "" {
		t.Errorf("losses %v with the setting off, want %v; the ConfigMap has %v", again, prior, w.configMap().Data)
	}
}

// A refusal changes nothing, and EC2 is asked again an hour later.
func TestRefusedScores(t *testing.T) {
	w, ec2, start := newWorld(t), &scorer{err: errors.New("UnauthorizedOperation: not allowed")}, time.Now().Add(-3*time.Hour)
	w.recorder.config.Scorer = ec2
	w.list = sizes("m5", 1)
	before := w.losses()
	for i := range 2 * int(time.Hour/period) {
		w.recorder.round(t.Context(), start.Add(time.Duration(i)*period))
	}
	if after := w.losses(); len(ec2.asked) != 2 || !slices.Equal(before, after) {
		t.Errorf("asked %d times within two hours, want 2; losses %v, were %v", len(ec2.asked), after, before)
	}
	if !strings.Contains(w.configMap().Data[interruption.LearnedKey], "through") {
		t.Error("nothing is recorded while EC2 refuses")
	}
}
