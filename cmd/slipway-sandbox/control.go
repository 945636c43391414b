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
			return client.Kill(cmd.Context(), args[0])
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
		newForCommand(at, "throttle", "Answer every API call with a throttling error", (*aws.Client).Throttle),
		newForCommand(at, "down", "Answer every API call with an internal error", (*aws.Client).Down),
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
			if !oneSpot {
				return client.Interrupt(cmd.Context(), args[0])
			}
			id, err := client.InterruptOne(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), id)
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
			return client.ICE(cmd.Context(), args[0], args[1], args[2], duration)
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
			return client.FailNextJoins(cmd.Context(), next)
		},
	}
	cmd.Flags().IntVar(&next, "next", 1, "how many instances")
	return cmd
}

// newForCommand returns a command that changes AWS for a limited time.
func newForCommand(at *target, use, short string, do func(*aws.Client, context.Context, time.Duration) error) *cobra.Command {
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
			return do(client, cmd.Context(), duration)
		},
	}
	cmd.Flags().DurationVar(&duration, "for", 30*time.Second, "for how long")
	return cmd
}
