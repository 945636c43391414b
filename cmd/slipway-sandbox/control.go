package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/sandbox/control"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func newKillCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:       "kill launcher|scheduler",
		Short:     "End a process with SIGKILL; it is restarted as the kubelet would restart it",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"launcher", "scheduler"},
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := control.Find(*name)
			if err != nil {
				return err
			}
			client := control.NewClient(state)
			defer client.Close()
			if err := client.Kill(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The %s was killed and is started again. Nodes and pods stay as they are: slipway status\n", args[0])
			return nil
		},
	}
}

func newAWSCommand(name *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "aws",
		Short: "Look at the AWS of a running sandbox, and do to it what AWS does to people",
	}
	at := &target{sandbox: name}
	cmd.PersistentFlags().StringVar(&at.endpoint, "endpoint", "", "URL of an AWS that aws serve runs, instead of a sandbox's")
	cmd.AddCommand(
		newInstancesCommand(at),
		newInterruptCommand(at),
		newICECommand(at),
		newFailJoinCommand(at),
		newForCommand(at, "throttle", "Answer every API call with a throttling error", "AWS throttles every call", (*aws.Client).Throttle),
		newForCommand(at, "down", "Answer every API call with an internal error", "AWS fails every call", (*aws.Client).Down),
		newServeCommand(),
	)
	cmd.AddCommand(newAccountCommands(at)...)
	return cmd
}

func newInstancesCommand(at *target) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "instances",
		Short: "List instances",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := at.client()
			if err != nil {
				return err
			}
			instances, err := client.Instances(cmd.Context())
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(table, "INSTANCE\tTYPE\tZONE\tCAPACITY\tUSD/H\tSTATE\tAGE\tNODE\tNODEPOOL")
			for _, i := range instances {
				if !all && i.State == aws.StateTerminated {
					continue
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.4f\t%s\t%s\t%s\t%s\n", i.ID, i.Type, i.Zone, i.CapacityType, i.Price, i.State,
					time.Since(i.LaunchTime).Round(time.Second), i.PrivateDNSName, i.Tags["karpenter.sh/nodepool"])
			}
			return table.Flush()
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "terminated ones too")
	return cmd
}

func newInterruptCommand(at *target) *cobra.Command {
	var oneSpot bool
	cmd := &cobra.Command{
		Use:   "interrupt INSTANCE | --one-spot",
		Short: "Take a spot instance away, with two minutes' warning",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if oneSpot == (len(args) == 1) {
				return fmt.Errorf("want either an instance or --one-spot")
			}
			client, err := at.client()
			if err != nil {
				return err
			}
			var id string
			if oneSpot {
				id, err = client.InterruptOne(cmd.Context())
			} else {
				id, err = args[0], client.Interrupt(cmd.Context(), args[0])
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: the interruption notice is sent, and EC2 takes the instance in two minutes. A node for its pods comes first: slipway status --watch\n", id)
			return nil
		},
	}
	cmd.Flags().BoolVar(&oneSpot, "one-spot", false, "any running spot instance")
	return cmd
}

func newICECommand(at *target) *cobra.Command {
	var duration time.Duration
	cmd := &cobra.Command{
		Use:     "ice TYPE|all ZONE|all spot|on-demand|all",
		Short:   "Let EC2 have no capacity for an offering",
		Example: "  slipway-sandbox aws ice m7g.large all spot --for 3m",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.client()
			if err != nil {
				return err
			}
			if err := client.ICE(cmd.Context(), args[0], args[1], args[2], duration); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "EC2 has no capacity until %s: instance type %s, zone %s, capacity type %s. Launches go to other offerings, or their pods say so: slipway explain pod\n",
				endOf(duration), args[0], args[1], args[2])
			return nil
		},
	}
	cmd.Flags().DurationVar(&duration, "for", 3*time.Minute, "for how long")
	return cmd
}

func newFailJoinCommand(at *target) *cobra.Command {
	var next int
	cmd := &cobra.Command{
		Use:   "fail-join [--next N]",
		Short: "Let the next instances boot without ever joining the cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if next < 1 {
				return fmt.Errorf("--next %s: want at least 1", strconv.Itoa(next))
			}
			client, err := at.client()
			if err != nil {
				return err
			}
			if err := client.FailNextJoins(cmd.Context(), next); err != nil {
				return err
			}
			which := "The next instance boots and never joins"
			if next > 1 {
				which = "The next " + catalog.CountText(next, "instance") + " boot and never join"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s. slipway gives up on each after 5 minutes, which --speed does not shorten: Event NodeDidNotJoin\n", which)
			return nil
		},
	}
	cmd.Flags().IntVar(&next, "next", 1, "how many instances")
	return cmd
}

// endOf returns the time of day after d.
func endOf(d time.Duration) string { return time.Now().Add(d).Format(time.TimeOnly) }

// newForCommand returns a command that changes AWS for a limited time. It prints what AWS does meanwhile.
func newForCommand(at *target, use, short, does string, do func(*aws.Client, context.Context, time.Duration) error) *cobra.Command {
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   use + " [--for 30s]",
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := at.client()
			if err != nil {
				return err
			}
			if err := do(client, cmd.Context(), duration); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s until %s. New nodes stay recorded meanwhile, and slipway status says why\n", does, endOf(duration))
			return nil
		},
	}
	cmd.Flags().DurationVar(&duration, "for", 30*time.Second, "for how long")
	return cmd
}
