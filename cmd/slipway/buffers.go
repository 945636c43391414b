package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/decisions"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// answerBuffers prints what buffers would have cost and saved, by the nodes that the cluster's launcher launched in the last day.
func (s *simulation) answerBuffers(cmd *cobra.Command, o *options, format string) error {
	if !s.fromCluster || len(s.files) > 0 {
		return errors.New("--buffers: --from-cluster without files is expected: the record of the last day is the cluster's")
	}
	if format != "table" && format != "json" {
		return fmt.Errorf("--output %s: table or json is expected with --buffers", format)
	}
	c, _, err := o.client()
	if err != nil {
		return err
	}
	report, err := bufferReport(cmd.Context(), c, s.known.namespace)
	if err != nil {
		return err
	}
	if report.NoRecord {
		fmt.Fprintf(cmd.ErrOrStderr(), "No record of decisions found in namespace %s: the launcher writes it once it has launched or ended a node "+
			"(its setting billNamespace, --slipway-namespace of this command).\n", s.known.namespace)
	}
	if format == "json" {
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		return encoder.Encode(report.Answers)
	}
	if report.NoRecord {
		return nil
	}
	return view.WriteBufferAnswers(cmd.OutOrStdout(), report.Answers, report.Since, report.Until)
}

// bufferReport returns what buffers would have cost and saved, by the record of the launcher in a namespace.
func bufferReport(ctx context.Context, c client.Client, namespace string) (view.BufferReport, error) {
	now := time.Now()
	list, err := decisions.Read(ctx, c, namespace, now)
	if err != nil {
		return view.BufferReport{}, err
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil {
		return view.BufferReport{}, fmt.Errorf("listing NodeClaims: %w", err)
	}
	of := make([]*karpv1.NodeClaim, len(claims.Items))
	for i := range claims.Items {
		of[i] = &claims.Items[i]
	}
	return view.ReportBuffers(list, of, now), nil
}
