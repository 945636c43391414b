package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/plugin/explain"
)

func newStatus(o *options) *cobra.Command {
	var watch bool
	var interval time.Duration
	format := string(view.FormatTable)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show slipway's nodes, where the pods stand, and the bill",
		Long: `Show slipway's nodes, where the pods stand, and the bill.

Prices are USD per hour of the node with its volumes; in brackets before EC2 has launched it. CPU and MEM are what the node's pods request of
its allocatable. PODS counts those on the node, and after a plus those that it is launched for. A node is recorded, launched, booting, joined,
ready and, at its end, terminating. With --namespace, only pods of that namespace are counted.`,
		Example: `  slipway status
  slipway status -o wide
  slipway status -o json | jq '.nodes[] | select(.state == "ready")'
  slipway status --watch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < time.Second {
				return fmt.Errorf("--interval %s: at least 1s is expected", interval)
			}
			c, _, err := o.client()
			if err != nil {
				return err
			}
			screen := cmd.Root().OutOrStdout()
			for {
				if watch {
					startOfScreen(screen, cmd.OutOrStdout(), view.Format(format))
				}
				if err := o.status(cmd.Context(), c, cmd.OutOrStdout(), view.Format(format)); err != nil || !watch {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(interval):
				}
			}
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until interrupted")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "how often, with --watch")
	cmd.Flags().StringVarP(&format, "output", "o", format, "table, wide or json")
	return cmd
}

// startOfScreen clears a terminal before the next overview; elsewhere a line with the time separates them, but for JSON documents.
func startOfScreen(screen, out io.Writer, format view.Format) {
	if f, ok := screen.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(screen, "\x1b[H\x1b[2J\x1b[3J") // Home, and clear with what was scrolled away (ECMA-48, xterm).
	}
	if format != view.FormatJSON {
		fmt.Fprintln(out, time.Now().Format(time.TimeOnly))
	}
}

func (o *options) status(ctx context.Context, c client.Client, w io.Writer, format view.Format) error {
	in, err := objects(ctx, c)
	if err != nil {
		return err
	}
	var pools karpv1.NodePoolList
	if err := c.List(ctx, &pools); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing NodePools: %w", err)
	}
	in.Now, in.NodePools, in.Namespace = time.Now(), pools.Items, o.namespace
	in.Why = func(pod *corev1.Pod) string {
		refusal, _ := explain.Read(pod)
		return refusal.Text()
	}
	var events corev1.EventList
	// Who may not list Events sees the rest.
	if err := c.List(ctx, &events, client.MatchingFields{"involvedObject.kind": "NodeClaim"}); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("listing Events about NodeClaims: %w", err)
	}
	in.Events = events.Items
	if err := view.New(in).Write(w, format); err != nil || format == view.FormatJSON {
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
	return view.Objects{Pods: view.Pointers(pods.Items), Nodes: view.Pointers(nodes.Items), NodeClaims: view.Pointers(claims.Items)}, err
}
