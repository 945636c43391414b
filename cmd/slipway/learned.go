package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// newLearned returns the command learned: it shows the sizes that nodes have reported and the next nodes are planned with, and can forget
// them.
func newLearned(o *options) *cobra.Command {
	var forget bool
	var instanceType string
	cmd := &cobra.Command{
		Use:   "learned [EC2NODECLASS]",
		Short: "Show what nodes have reported of their size, or forget it",
		Example: `  slipway learned
  slipway learned default --forget
  slipway learned default --forget --instance-type m6i.large`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if forget && len(args) == 0 {
				return errors.New("forget what? name the EC2NodeClass")
			}
			c, _, err := o.client()
			if err != nil {
				return err
			}
			if forget {
				return forgetReports(cmd.Context(), c, cmd.OutOrStdout(), args[0], instanceType)
			}
			var classes awsv1.EC2NodeClassList
			if err := c.List(cmd.Context(), &classes); err != nil {
				return installed(err)
			}
			list := slices.DeleteFunc(classes.Items, func(class awsv1.EC2NodeClass) bool { return len(args) > 0 && class.Name != args[0] })
			if len(args) > 0 && len(list) == 0 {
				return fmt.Errorf("EC2NodeClass %s: there is none", args[0])
			}
			return reportsTable(cmd.OutOrStdout(), list, instanceType, time.Now())
		},
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "remove the reports: the next nodes are planned with EC2's values, until nodes report again")
	cmd.Flags().StringVar(&instanceType, "instance-type", "", "of this instance type alone")
	return cmd
}

func reportsTable(w io.Writer, classes []awsv1.EC2NodeClass, instanceType string, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EC2NODECLASS\tINSTANCE TYPE\tAMI\tNODECLAIM\tAGE\tFROM\tMEMORY\tALLOCATABLE")
	for i := range classes {
		sizes := fromec2.SizesOf(&classes[i])
		for _, key := range slices.Sorted(maps.Keys(sizes)) {
			kind, ami, _ := strings.Cut(key, "/")
			for _, r := range sizes[key] {
				if instanceType == "" || instanceType == kind {
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", classes[i].Name, kind, ami, r.NodeClaim,
						duration.HumanDuration(now.Sub(r.At.Time)), source(r), r.Memory.String(), amounts(r.Allocatable))
				}
			}
		}
	}
	return table.Flush()
}

func source(r fromec2.Report) string {
	if r.Rejection {
		return "rejection"
	}
	return "node"
}

func amounts(list corev1.ResourceList) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		out = append(out, fmt.Sprintf("%s=%s", name, q.String()))
	}
	return strings.Join(out, ",")
}

// forgetReports removes the reports of nodes of a class, of one instance type or of all.
func forgetReports(ctx context.Context, c client.Client, w io.Writer, name, instanceType string) error {
	class := &awsv1.EC2NodeClass{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, class); err != nil {
		return installed(err)
	}
	before := class.DeepCopy()
	kinds := fromec2.Forget(class, instanceType)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, class, patch); err != nil {
		return fmt.Errorf("forgetting what nodes of EC2NodeClass %s have reported: %w", name, err)
	}
	fmt.Fprintf(w, "forgot what nodes of %s of EC2NodeClass %s have reported\n", catalog.CountText(kinds, "instance type")+" by AMI", name)
	return nil
}
