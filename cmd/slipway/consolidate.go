package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-k8s/slipway/internal/progress"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/report"
)

// consolidation holds the flags of `slipway simulate --consolidate`.
type consolidation struct {
	on      bool
	options consolidate.Options
	podAge  time.Duration
	// disruptBare is the launcher's setting disruptBarePods.
	disruptBare bool
}

func newConsolidation() *consolidation { return &consolidation{options: consolidate.DefaultOptions()} }

func (c *consolidation) addFlags(f *pflag.FlagSet) {
	d := c.options
	f.BoolVar(&c.on, "consolidate", false, "show what the nodes that run could cost: which to give up, what to launch instead, which pods would move")
	f.DurationVar(&c.options.Payback, "payback", d.Payback, "with --consolidate: how soon a move has to have earned what it costs")
	f.Float64Var(&c.options.EvictionCost, "eviction-cost", d.EvictionCost, "with --consolidate: what the eviction of a pod counts for, in USD")
	f.DurationVar(&c.podAge, "pod-age", 0, "with --consolidate: a pod that has run so long counts twice, a younger one more; 0s: all count alike. Where it is given, it holds for NodePools too that have the annotation slipway.dev/consolidation-pod-age")
	f.Float64Var(&c.options.MinSaving, "min-saving", d.MinSaving, "with --consolidate: the least that a move has to save, in USD per hour")
	f.BoolVar(&c.disruptBare, "disrupt-bare-pods", false, "with --consolidate: pods without a controller do not keep their node, as with the launcher's setting of that name")
	f.BoolVar(&c.options.SpotToSpot, "spot-to-spot", false, "with --consolidate: replace spot nodes by other spot nodes too")
}

func (c *consolidation) validate() error {
	if c.options.Payback <= 0 {
		return fmt.Errorf("--payback %s: more than zero is expected", c.options.Payback)
	}
	if c.podAge < 0 {
		return fmt.Errorf("--pod-age %s: zero or more is expected", c.podAge)
	}
	for name, v := range map[string]float64{"eviction-cost": c.options.EvictionCost, "min-saving": c.options.MinSaving} {
		if !(v >= 0) {
			return fmt.Errorf("--%s %g: zero or more is expected", name, v)
		}
	}
	return nil
}

// run loads, decides, and prints the problems of the input to standard error.
func (c *consolidation) run(cmd *cobra.Command, o *options, s *simulation, format string) error {
	if err := c.validate(); err != nil {
		return err
	}
	objects, m, err := s.load(cmd, o)
	if err != nil {
		return err
	}
	saving, err := progress.During(reporting(cmd), "deciding about "+catalog.CountText(len(objects.Nodes), "node"), func() (*simulate.Saving, error) {
		return simulate.Consolidate(cmd.Context(), objects, m, simulate.ConsolidateOptions{
			Options: s.options, Consolidate: c.options, PodAge: c.podAge, PodAgeOfAll: cmd.Flags().Changed("pod-age"),
			DisruptBare: c.disruptBare,
		})
	})
	if err != nil {
		return err
	}
	saving.WriteNotes(cmd.ErrOrStderr(), objects)
	if format == formatHTML {
		err = report.Saving(cmd.Context(), cmd.OutOrStdout(), saving, objects.Ignored)
	} else {
		err = saving.Write(cmd.OutOrStdout(), format)
	}
	return errors.Join(err, input.Refused(saving.Problems))
}
