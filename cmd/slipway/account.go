package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/aws/committed"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/commitments"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// commit adds the account's commitments if they are asked for, and leaves the cluster its share of all, as the launcher does.
func (s *simulation) commit(ctx context.Context, m *market.Market) error {
	if s.fromAccount {
		cfg, err := aws.LoadConfig(ctx)
		if err != nil {
			return err
		}
		list, faults, err := committed.New(cfg).Commitments(ctx)
		if err != nil {
			return fmt.Errorf("--commitments-from-aws: %w", err)
		}
		addCommitments(m, list, faults, time.Now())
	}
	m.Commitments = commitments.Shared(m.Commitments, cmp.Or(s.commitmentShare, 1))
	return nil
}

// addCommitments adds those of an account that have not ended. An entry of the file or ConfigMap is used in place of AWS's with the same ID.
func addCommitments(m *market.Market, list []commitment.Commitment, faults []commitment.Fault, now time.Time) {
	var running []commitment.Commitment
	for i := range list {
		if !list[i].Ended(now) {
			running = append(running, list[i])
			continue
		}
		faults = append(faults, commitment.Fault{Entry: list[i].ID, Message: "end: it ended at " + list[i].End.UTC().Format(time.RFC3339)})
	}
	for _, f := range faults {
		m.Problems = append(m.Problems, input.Problem{Object: "commitment " + f.Entry, Message: f.Message + "; it is left out"})
	}
	m.Commitments = commitments.Merge(m.Commitments, running)
	m.Notes = append(m.Notes, fmt.Sprintf("commitments: the %d of the AWS account, beside those that are listed", len(running)))
}
