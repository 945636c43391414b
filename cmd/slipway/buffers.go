package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
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
	now := time.Now()
	list, err := decisions.Read(cmd.Context(), c, s.known.namespace, now)
	if err != nil {
		return err
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.List(cmd.Context(), claims); err != nil {
		return fmt.Errorf("listing NodeClaims: %w", err)
	}
	of, since := make([]*karpv1.NodeClaim, len(claims.Items)), now
	for i := range claims.Items {
		of[i] = &claims.Items[i]
	}
	for _, d := range list {
		if d.At.Before(since) {
			since = d.At
		}
	}
	answers := view.BufferAnswers(list, of)
	if format == "table" {
		return view.WriteBufferAnswers(cmd.OutOrStdout(), answers, since, now)
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	return encoder.Encode(answers)
}
