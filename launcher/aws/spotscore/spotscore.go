// Package spotscore asks EC2 for spot placement scores: how likely it is that a zone has spot capacity of some instance types. When it is asked, and what
// the scores mean for plans, is launcher/interruptions' and launcher/catalog/interruption's.
package spotscore

import (
	"context"
	"errors"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	// attempts of one call: it is made again an hour later.
	attempts = 2
	// targetVCPUs is the capacity that a zone is scored for. It is the same for all clusters and times: another one would be a new configuration, of
	// which AWS allows few within a day.
	targetVCPUs = 100
	// pageSize is the smallest that EC2 allows, which returns ten zones at most; maxPages bounds the pages.
	pageSize, maxPages = 10, 10
)

// Scores are those of one region. Its methods may be called concurrently.
type Scores struct {
	ec2    *ec2.Client
	region string
}

// New returns the scores of the region of cfg. It calls no API.
func New(cfg awssdk.Config) *Scores {
	return &Scores{ec2: ec2.NewFromConfig(cfg, func(o *ec2.Options) { o.Retryer = retry.AddWithMaxAttempts(o.Retryer, attempts) }), region: cfg.Region}
}

// PlacementScores returns the scores of the region's zones, 1 to 10, by zone ID, for spot nodes of the instance types.
func (s *Scores) PlacementScores(ctx context.Context, instanceTypes []string) (map[string]int, error) {
	in := &ec2.GetSpotPlacementScoresInput{
		InstanceTypes: instanceTypes, RegionNames: []string{s.region}, SingleAvailabilityZone: awssdk.Bool(true),
		TargetCapacity: awssdk.Int32(targetVCPUs), TargetCapacityUnitType: ec2types.TargetCapacityUnitTypeVcpu, MaxResults: awssdk.Int32(pageSize),
	}
	out := map[string]int{}
	for range maxPages {
		page, err := s.ec2.GetSpotPlacementScores(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("getting spot placement scores: %w", err)
		}
		for _, score := range page.SpotPlacementScores {
			if id := awssdk.ToString(score.AvailabilityZoneId); id != "" && awssdk.ToString(score.Region) == s.region {
				out[id] = int(awssdk.ToInt32(score.Score))
			}
		}
		if awssdk.ToString(page.NextToken) == "" {
			return out, nil
		}
		in.NextToken = page.NextToken
	}
	return nil, errors.New("getting spot placement scores: too many pages")
}
