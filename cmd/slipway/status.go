package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/view"
)

func newStatus(o *options) *cobra.Command {
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show slipway's nodes, where the pods stand, and the bill",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := o.client()
			if err != nil {
				return err
			}
			for {
				if err := status(cmd.Context(), c, cmd.OutOrStdout()); err != nil || watch <= 0 {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(watch):
					fmt.Fprintln(cmd.OutOrStdout())
				}
			}
		},
	}
	cmd.Flags().DurationVarP(&watch, "watch", "w", 0, "print again at this interval, until interrupted")
	return cmd
}

func status(ctx context.Context, c client.Client, w io.Writer) error {
	in, err := objects(ctx, c)
	if err != nil {
		return err
	}
	in.Now = time.Now()
	var events corev1.EventList
	// Who may not list Events sees the rest.
	if err := c.List(ctx, &events, client.MatchingFields{"involvedObject.kind": "NodeClaim"}); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("listing Events about NodeClaims: %w", err)
	}
	in.Events = events.Items
	if err := view.New(in).Table(w); err != nil {
		return err
	}
	var classes awsv1.EC2NodeClassList
	if err := c.List(ctx, &classes); err != nil && !meta.IsNoMatchError(err) {
		return err
	}
	for i := range classes.Items {
		if n := len(fromec2.SizesOf(&classes.Items[i])); n > 0 {
			fmt.Fprintf(w, "\nEC2NodeClass %s: planned with what nodes of %d instance types and AMIs have reported (slipway learned).\n", classes.Items[i].Name, n)
		}
	}
	return nil
}

func objects(ctx context.Context, c client.Client) (view.Objects, error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var claims karpv1.NodeClaimList
	err := errors.Join(c.List(ctx, &pods), c.List(ctx, &nodes), c.List(ctx, &claims))
	return view.Objects{Pods: pods.Items, Nodes: nodes.Items, NodeClaims: claims.Items}, err
}
