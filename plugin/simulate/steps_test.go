package simulate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

const oneAtATime = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1m, budgets: [{nodes: "1"}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
`

// A simulation ends after 100 steps. It says so if more moves would follow, and the nodes that these would remove stay.
func TestConsolidationEndsAfterManySteps(t *testing.T) {
	const more = "More  moves would follow, a simulation ends after 100 steps"
	for _, c := range []struct {
		empty, left int
		unfinished  bool
	}{{100, 0, false}, {102, 2, true}} {
		reader := input.NewReader()
		if err := reader.Read("pool.yaml", []byte(oneAtATime)); err != nil {
			t.Fatal(err)
		}
		for i := range c.empty {
			addNode(t, reader, []string{fmt.Sprintf("n%03d", i), "default", "m5.large", "us-east-1a", "on-demand"})
		}
		objects := reader.Finish()
		s, err := simulate.Consolidate(t.Context(), objects, testMarket(t), simulate.ConsolidateOptions{
			Options: simulate.Options{Now: noon()}, Consolidate: consolidate.DefaultOptions(),
		})
		if err != nil {
			t.Fatal(err)
		}
		kept(t, objects, s)
		var out bytes.Buffer
		if err := s.Write(&out, "table"); err != nil {
			t.Fatal(err)
		}
		r := s.Result()
		if r.Steps != 100 || r.NodesThen != c.left || r.Unfinished != c.unfinished || strings.Contains(out.String(), more) != c.unfinished || len(r.Kept) != c.left {
			t.Errorf("%d empty nodes: %d steps, then %d nodes, unfinished %t, kept %v\n%s", c.empty, r.Steps, r.NodesThen, r.Unfinished, r.Kept, out.String())
		}
		if c.unfinished && !strings.Contains(fmt.Sprint(r.Kept), "it would go in the next step") {
			t.Errorf("kept %v, want the node that the next step would remove with that reason", r.Kept)
		}
	}
}
