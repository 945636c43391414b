package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// newAccountCommands returns the commands that change the account and the market of a running sandbox's AWS.
func newAccountCommands(at *target) []*cobra.Command {
	return []*cobra.Command{
		newDoCommand(at, "quota spot|on-demand VCPUS|none", "Limit the vCPUs of a capacity type, as an account's quota does", setQuota),
		newDoCommand(at, "spot-role present|missing", "Let the account have, or lack, the service-linked role of EC2 Spot", setSpotRole),
		newDoCommand(at, "price TYPE|all FACTOR", "Multiply prices of an instance type or of a usage type, such as EBS:VolumeUsage.gp3; 1 is as it was. The launcher asks for prices every 12 hours and when it starts", setPrice),
		newDoCommand(at, "delete-templates", "Delete all launch templates, as an administrator might", deleteTemplates),
		newDoCommand(at, "deprecate IMAGE", "Let an AMI be deprecated", func(ctx context.Context, c *aws.Client, args []string) (string, error) {
			return args[0] + " is deprecated: an alias still finds it, and the EC2NodeClass's status says so within 5 minutes", c.DeprecateImage(ctx, args[0])
		}),
		newDoCommand(at, "tags-after DURATION", "Delay the tags of instances, on the sandbox's clock; 0s is no delay", setTagsAfter),
		newDoCommand(at, "cancel-reservation ID", "Give a capacity reservation back", func(ctx context.Context, c *aws.Client, args []string) (string, error) {
			return args[0] + " is given back: its instances run on as on-demand ones, and its nodes get that label", c.CancelReservation(ctx, args[0])
		}),
		newDoCommand(at, "cpu INSTANCE VCPUS", "Let so many vCPUs of an instance be busy; instances are idle otherwise", setCPU),
		newReleaseCommand(at),
		newReserveCommand(at),
		newBillCommand(at),
	}
}

// newDoCommand returns a command with as many arguments as its use names, which prints the result if there is one.
func newDoCommand(at *target, use, short string, do func(context.Context, *aws.Client, []string) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(len(strings.Fields(use)) - 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.client()
			if err != nil {
				return err
			}
			said, err := do(cmd.Context(), client, args)
			if err == nil && said != "" {
				fmt.Fprintln(cmd.OutOrStdout(), said)
			}
			return err
		},
	}
}

func setQuota(ctx context.Context, c *aws.Client, args []string) (string, error) {
	vcpus := -1
	if args[1] != "none" {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 {
			return "", fmt.Errorf("%q: want a number of vCPUs, or none", args[1])
		}
		vcpus = n
	}
	said := fmt.Sprintf("The account may run %d vCPUs of %s. Launches beyond it fail with VcpuLimitExceeded: slipway status", vcpus, args[0])
	if vcpus < 0 {
		said = "The account has no limit of " + args[0] + " vCPUs"
	}
	return said, c.SetQuota(ctx, args[0], vcpus)
}

func setSpotRole(ctx context.Context, c *aws.Client, args []string) (string, error) {
	if args[0] != "present" && args[0] != "missing" {
		return "", fmt.Errorf("%q: want present or missing", args[0])
	}
	said := "The account has the service-linked role of EC2 Spot"
	if args[0] == "missing" {
		said = "The account lacks the service-linked role of EC2 Spot. Spot launches fail, and on-demand ones go on: slipway status"
	}
	return said, c.SetSpotRole(ctx, args[0] == "present")
}

func setPrice(ctx context.Context, c *aws.Client, args []string) (string, error) {
	factor, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return "", fmt.Errorf("%q: want a factor such as 1.5", args[1])
	}
	said := fmt.Sprintf("Prices of %s are %g times what they were at the start. The launcher asks every 12 hours and when it starts: slipway-sandbox kill launcher", args[0], factor)
	return said, c.SetPrice(ctx, args[0], factor)
}

func setCPU(ctx context.Context, c *aws.Client, args []string) (string, error) {
	vcpus, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return "", fmt.Errorf("%q: want a number of vCPUs", args[1])
	}
	return fmt.Sprintf("%g vCPUs of %s are busy from now on. Burstable instances pay for credits: slipway-sandbox aws bill", vcpus, args[0]), c.SetCPU(ctx, args[0], vcpus)
}

func deleteTemplates(ctx context.Context, c *aws.Client, _ []string) (string, error) {
	n, err := c.DeleteTemplates(ctx)
	return catalog.CountText(n, "launch template") + " deleted. The next launch makes those that it needs", err
}

func setTagsAfter(ctx context.Context, c *aws.Client, args []string) (string, error) {
	d, err := time.ParseDuration(args[0])
	if err != nil || d < 0 {
		return "", fmt.Errorf("%q: want a duration such as 5s", args[0])
	}
	return fmt.Sprintf("EC2 shows the tags of new instances after %s. Launches look their instances up by ID", d), c.SetTagsAfter(ctx, d)
}

func newReleaseCommand(at *target) *cobra.Command {
	var al2023, bottlerocket string
	cmd := newDoCommand(at, "release", "Publish new AMIs of EKS, which the aliases' @latest name from then on",
		func(ctx context.Context, c *aws.Client, _ []string) (string, error) {
			return "New AMIs are released. An alias @latest finds them within 5 minutes, and nodes of older ones become Drifted: slipway status", c.ReleaseImages(ctx, al2023, bottlerocket)
		})
	cmd.Flags().StringVar(&al2023, "al2023", "", "name of the release of AL2023 and AL2, such as v20260801 (default today's)")
	cmd.Flags().StringVar(&bottlerocket, "bottlerocket", "", "name of the release of Bottlerocket, such as 1.46.0 (default one of today)")
	return cmd
}

func newReserveCommand(at *target) *cobra.Command {
	var of aws.CapacityReservation
	var endsIn time.Duration
	cmd := newDoCommand(at, "reserve TYPE ZONE N", "Reserve capacity for N instances and print the reservation's id",
		func(ctx context.Context, c *aws.Client, args []string) (string, error) {
			n, err := strconv.Atoi(args[2])
			if err != nil {
				return "", fmt.Errorf("%q: want a number of instances", args[2])
			}
			of.InstanceType, of.Zone, of.Total = args[0], args[1], n
			if endsIn != 0 {
				of.Ends = time.Now().Add(endsIn)
			}
			return c.Reserve(ctx, of)
		})
	cmd.Flags().StringToStringVar(&of.Tags, "tag", nil, "tags by which an EC2NodeClass selects it, KEY=VALUE")
	cmd.Flags().StringVar(&of.Type, "type", "default", "default or capacity-block")
	cmd.Flags().BoolVar(&of.Interruptible, "interruptible", false, "its owner may take the instances back: aws interrupt INSTANCE")
	cmd.Flags().DurationVar(&endsIn, "ends-in", 0, "when it ends, such as 1h on your clock; nodes of a Capacity Block drain 40 minutes before (default never)")
	return cmd
}
