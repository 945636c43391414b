package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "karpentersuite", Short: "Run Karpenter's own test suites against slipway in a sandbox", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.suite, "suite", "regression", "suite to run: regression or performance")
	flags.StringVar(&o.focus, "focus", "", "run the cases whose names, after that of the suite, match this regular expression")
	flags.StringVar(&o.skip, "skip", "", "run no case whose full name matches this regular expression")
	flags.Float64Var(&o.speed, "speed", 10, "divide the delays of AWS and of machines by this, except in cases that measure real seconds; 1 is the speed of EC2")
	flags.StringVar(&o.binDir, "bin-dir", "bin", "folder of slipway's binaries")
	flags.StringVar(&o.out, "out", "bin/karpenter-suite", "folder of the suite's binary, its output, its report and slipway's logs")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Hour, "end the suite after this")
	return cmd
}

// run builds one suite, runs it and prints the table.
func run(ctx context.Context, o options) error {
	if o.suite != regression && o.suite != performance {
		return fmt.Errorf("validating --suite %q: want %s or %s", o.suite, regression, performance)
	}
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	binary, err := build(ctx, o.suite, out)
	if err != nil {
		return err
	}
	all, err := dryRun(ctx, binary, out)
	if err != nil {
		return err
	}
	if err := known(o.suite, all); err != nil {
		return err
	}
	needed, err := listens(o.suite, all, o.focus)
	if err == nil && needed {
		err = portIsFree(ctx)
	}
	if err != nil {
		return err
	}
	rounds, err := roundsOf(all, o, out)
	if err != nil {
		return err
	}
	var cases []result
	for _, r := range rounds {
		results, err := r.run(ctx, binary, all)
		if err != nil {
			return err
		}
		cases = merged(cases, results)
	}
	return judge(o, cases, len(rounds) > 1)
}

// known returns an error if a list of this command names a case that the suite does not have.
func known(suite string, all []string) error {
	listed := slices.AppendSeq(realTime(suite), maps.Keys(leftOut(suite)))
	if names := unknown(all, listed); len(names) > 0 {
		return fmt.Errorf("reading the lists of cases that are left out or need EC2's speed: suite %s has no case named %q", suite, names)
	}
	return nil
}

// judge prints the table, and returns an error unless cases ran and all of them passed. realTime means that some ran at EC2's speed.
func judge(o options, cases []result, realTime bool) error {
	title := fmt.Sprintf("Karpenter's suite %s against slipway, machines at %g times EC2's speed", o.suite, o.speed)
	if realTime {
		title += ", at EC2's own where a case measures real seconds"
	}
	printTable(os.Stdout, title, cases)
	if ran(cases) == 0 {
		return fmt.Errorf("running suite %s: no case matches --focus %q", o.suite, o.focus)
	}
	if n := failures(cases); n > 0 {
		return fmt.Errorf("running suite %s: %d of %d cases failed", o.suite, n, ran(cases))
	}
	return nil
}
