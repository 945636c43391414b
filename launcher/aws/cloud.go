package aws

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/aws/pricelist"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

var _ cloud.Cloud = (*Cloud)(nil)

// Cloud is cloud.Cloud over AWS.
type Cloud struct {
	power
	charged
	*zonalShifts

	cfg     Config
	metrics *metrics

	// ec2 makes the calls whose callers repeat them themselves, and report their errors; offer those that list what EC2 offers.
	ec2    *ec2.Client
	offer  *ec2.Client
	eks    *eks.Client
	iam    *iam.Client
	prices *pricelist.List
	sqs    *sqs.Client
	ssm    *ssm.Client

	clusters   *cached[cluster]
	dns        *clusterDNS
	subnets    *cached[[]subnet]
	groups     *cached[[]awsv1.SecurityGroup]
	placements placements
	images     *cached[[]awsv1.AMI]
	parameters *cached[string]
	profiles   *cached[string]
	queues     *cached[string]
	launches   *cached[*launchRequest]

	reservations *cached[reservationsFound]
	reserved     remainingInstances
	// blocks are the ends of Capacity Blocks with nodes, by ID.
	blocks *cached[time.Time]

	shapes     *shapeCache
	offers     *offersCache
	templates  *templateUse
	profileUse *templateUse
	swept      sweeps
	// zoneIDs maps zone name to zone ID, both strings.
	zoneIDs   sync.Map
	throttle  *throttle
	described *merger[[]string, map[string]cloud.Instance]
	tagged    *merger[tagRequest, map[string]error]
	taken     takenAddresses
	seen      seenInstances
	without   *unavailable
	changed   *signal
}

// New validates cfg and makes the clients. It calls no AWS API.
func New(cfg Config) (*Cloud, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Periods.setDefaults()
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	p, changed, limits := cfg.Periods, newSignal(), newThrottle(m.waited)
	inTurn := func(o *ec2.Options) { o.APIOptions = append(o.APIOptions, limits.install) }
	c := &Cloud{
		cfg: cfg, metrics: m, throttle: limits,
		ec2:    ec2.NewFromConfig(cfg.AWS, inTurn, fewAttempts),
		offer:  ec2.NewFromConfig(cfg.AWS, inTurn),
		eks:    eks.NewFromConfig(cfg.AWS),
		iam:    iam.NewFromConfig(cfg.AWS),
		prices: pricelist.New(cfg.AWS, reportedAfter, noPrices),
		sqs:    sqs.NewFromConfig(cfg.AWS),
		ssm:    ssm.NewFromConfig(cfg.AWS),

		clusters:   newKept[cluster](p.Cluster, partCluster, m),
		dns:        &clusterDNS{read: cfg.ClusterDNS, period: p.Cluster, logger: cfg.Logger},
		subnets:    newKept[[]subnet](p.Subnets, partSubnets, m),
		groups:     newKept[[]awsv1.SecurityGroup](p.SecurityGroups, partGroups, m),
		images:     newKept[[]awsv1.AMI](p.Images, partImages, m),
		parameters: newCached[string](p.Parameters),
		profiles:   newCached[string](p.InstanceProfiles),
		queues:     newCached[string](queueMemory),
		launches:   newCached[*launchRequest](launchMemory),

		reservations: newCached[reservationsFound](p.Reservations), blocks: newCached[time.Time](p.Reservations),

		charged: charged{newMarketCache()}, shapes: newShapeCache(cfg), offers: newOffersCache(), templates: newTemplateUse(), profileUse: newTemplateUse(),
		without: newUnavailable(p.Unavailable, changed), changed: changed,
		zonalShifts: newZonalShifts(cfg.AWS, cfg.ClusterName, cfg.ZonalShift),
	}
	c.placements = placements{c.ec2, newKept[catalog.PlacementGroup](p.Reservations, partPlacements, m)}
	c.described = newMerger(gather, c.describeAll)
	c.tagged = newMerger(gather, c.tagAll)
	c.power = power{ec2: c.ec2, measure: m.measure, without: c.without.refused, isUnknown: c.isUnknown, facts: c.known.of, hibernation: newHibernation()}
	return c, nil
}

// Changed implements cloud.Cloud.
func (c *Cloud) Changed() <-chan struct{} { return c.changed.wait() }

// Release implements cloud.Cloud.
func (c *Cloud) Release(ctx context.Context, class *awsv1.EC2NodeClass) error {
	c.shapes.forget(class.Name)
	c.without.refusals.forget(class.Name)
	c.metrics.offerings(c.offers.forget(class.Name))
	return errors.Join(
		c.deleteTemplates(ctx, class.Name, func(string) bool { return true }),
		c.deleteProfiles(ctx, class),
	)
}
