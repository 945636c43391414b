package main

import (
	"bytes"
	"cmp"
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

	"github.com/slipway-k8s/slipway/launcher/billing"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/launcher/view/top"
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
ready and, at its end, terminating; not ready while its kubelet does not answer, and asleep while a standby buffer keeps its instance stopped. With --namespace, only pods of that namespace are counted.`,
		Example: `  slipway status
  slipway status -o wide
  slipway status -o json | jq '.nodes[] | select(.state == "ready")'
  slipway status --watch`,
		Annotations: map[string]string{takesNamespace: "of the pods to count"},
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := validInterval(interval); err != nil {
				return err
			}
			switch form := view.Format(format); {
			case watch && form == view.FormatTable:
				return o.live(cmd, interval)
			case watch:
				return o.watch(cmd, interval, form)
			default:
				c, _, err := o.client()
				if err != nil {
					return err
				}
				return o.status(cmd.Context(), c, cmd.OutOrStdout(), form)
			}
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until interrupted: slipway top on a terminal, one table after the other elsewhere")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "how often, with --watch")
	o.addRecordFlag(cmd)
	cmd.Flags().StringVarP(&format, "output", "o", format, "table, wide or json")
	return cmd
}

func validInterval(interval time.Duration) error {
	if interval < time.Second {
		return fmt.Errorf("--interval %s: at least 1s is expected", interval)
	}
	return nil
}

// watch prints overviews until the context ends. A reading that fails after one that did not is reported, and the next one is tried.
func (o *options) watch(cmd *cobra.Command, interval time.Duration, format view.Format) error {
	c, _, err := o.client()
	if err != nil {
		return err
	}
	for read := false; ; {
		text, err := o.reading(cmd.Context(), c, format)
		switch {
		case cmd.Context().Err() != nil: // The user may end it while it reads.
		case err != nil && !read:
			return err
		case err != nil:
			cmd.PrintErrf("%s: not read: %v\n", time.Now().Format(time.TimeOnly), err)
		default:
			read = true
			startOfScreen(cmd.Root().OutOrStdout(), cmd.OutOrStdout(), format)
			if _, err := cmd.OutOrStdout().Write(text); err != nil {
				return err
			}
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// reading returns an overview as text. It ends after readTakes.
func (o *options) reading(ctx context.Context, c client.Client, format view.Format) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTakes)
	defer cancel()
	var text bytes.Buffer
	err := o.status(ctx, c, &text, format)
	return text.Bytes(), err
}

// startOfScreen clears a terminal before the next overview; elsewhere a line with the time separates them, but for JSON documents.
func startOfScreen(screen, out io.Writer, format view.Format) {
	if f, ok := screen.(*os.File); ok && term.IsTerminal(int(f.Fd())) && cursorMoves() {
		fmt.Fprint(screen, "\x1b[H\x1b[2J\x1b[3J") // Home, and clear with what was scrolled away (ECMA-48, xterm).
	}
	if format != view.FormatJSON {
		fmt.Fprintln(out, time.Now().Format(time.TimeOnly))
	}
}

func (o *options) status(ctx context.Context, c client.Client, w io.Writer, format view.Format) error {
	now, err := o.snapshot(ctx, c)
	if err != nil {
		return err
	}
	if err := now.Overview.Write(w, format); err != nil || format == view.FormatJSON {
		return err
	}
	if format == view.FormatWide {
		o.commitments(ctx, c, w)
	}
	var classes awsv1.EC2NodeClassList
	// Who may not list EC2NodeClasses sees the rest.
	if err := c.List(ctx, &classes); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err) {
		return err
	}
	for i := range classes.Items {
		if n := len(fromec2.SizesOf(&classes.Items[i])); n > 0 {
			fmt.Fprintf(w, "\nEC2NodeClass %s: planned with what nodes of %s have reported (slipway learned).\n", classes.Items[i].Name, catalog.CountText(n, "instance type")+" by AMI")
		}
	}
	return nil
}

// snapshot reads what an overview shows.
func (o *options) snapshot(ctx context.Context, c client.Client) (top.Snapshot, error) {
	in, err := objects(ctx, c)
	if err != nil {
		return top.Snapshot{}, err
	}
	var pools karpv1.NodePoolList
	if err := c.List(ctx, &pools); err != nil && !meta.IsNoMatchError(err) {
		return top.Snapshot{}, fmt.Errorf("listing NodePools: %w", err)
	}
	in.Now, in.NodePools, in.Namespace = time.Now(), view.Pointers(pools.Items), o.namespace
	in.Why = func(pod *corev1.Pod) string {
		refusal, _ := explain.Read(pod)
		return cmp.Or(refusal.Text(), view.WhyPending(pod, in.Now))
	}
	var events corev1.EventList
	// Who may not list Events sees the rest.
	if err := c.List(ctx, &events, client.MatchingFields{"involvedObject.kind": "NodeClaim"}); err != nil && !apierrors.IsForbidden(err) {
		return top.Snapshot{}, fmt.Errorf("listing Events about NodeClaims: %w", err)
	}
	in.Events = events.Items
	return top.Snapshot{Overview: view.New(in), Objects: in}, nil
}

// commitments writes the use of the account's commitments, as the record of what nodes cost has it. Who may not read that sees the rest.
func (o *options) commitments(ctx context.Context, c client.Client, w io.Writer) {
	records, _, err := billing.Read(ctx, c, o.recordNamespace, time.Now(), 2)
	if err != nil || len(records) == 0 {
		return
	}
	last := records[len(records)-1]
	view.WriteCommitments(w, last.Commitments, last.Through)
}

// objects returns all pods, nodes and NodeClaims.
func objects(ctx context.Context, c client.Client) (view.Objects, error) {
	in, forbidden, err := visible(ctx, c)
	return in, errors.Join(err, forbidden)
}

// visible returns the pods, nodes and NodeClaims that the user may list. What is left out is in Unread, and forbidden says why.
func visible(ctx context.Context, c client.Client) (in view.Objects, forbidden, err error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var claims karpv1.NodeClaimList
	for _, list := range []struct {
		of   string
		into client.ObjectList
	}{{view.UnreadPods, &pods}, {view.UnreadNodes, &nodes}, {view.UnreadNodeClaims, &claims}} {
		switch failed := c.List(ctx, list.into); {
		case apierrors.IsForbidden(failed):
			in.Unread = append(in.Unread, list.of)
			forbidden = errors.Join(forbidden, failed)
		default:
			err = errors.Join(err, installed(failed))
		}
	}
	in.Pods, in.Nodes, in.NodeClaims = view.Pointers(pods.Items), view.Pointers(nodes.Items), view.Pointers(claims.Items)
	return in, forbidden, err
}

// installed returns the error of a read, with what to do where the cluster does not know the kind.
func installed(err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	return fmt.Errorf("the CRDs of slipway, which are Karpenter's, are not installed in this cluster (--context names another one): install the chart slipway-crds, "+
		"see docs/getting-started.md: %w", err)
}
