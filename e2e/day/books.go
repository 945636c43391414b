package day

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/meter"
	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/billing"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const (
	// observes is how often slipway's record observes the cluster: as often as the launcher does.
	observes = 10 * time.Second
	// rootGiB is the root volume of an EC2NodeClass with the defaults of AL2023: gp3.
	rootGiB = 20
)

// books are the day as two see it who share nothing but what happened: the record of slipway's bill, and AWS's meter.
type books struct {
	begin time.Time
	// table has AWS's prices on demand; spot is the history of the market's, by zone and type.
	table *instancetypes.Table
	spot  map[place][]meter.Rate
	// lives are the nodes that ever were, in the order of launch; open those that slipway still has a NodeClaim for, by name.
	lives  []*life
	open   map[string]*life
	ledger bill.Ledger
	// plans are the commitments of the account, as slipway has them.
	plans []commitment.Commitment
	// last is what slipway read last.
	last billing.Objects
}

type place struct{ zone, instanceType string }

// life is what happened to a node.
type life struct {
	history meter.Instance
	node    *corev1.Node
	claim   *karpv1.NodeClaim
	// peak is the most that its pods requested together, by resource.
	peak corev1.ResourceList
	// gone is when slipway has released the NodeClaim; zero while the node stays.
	gone time.Time
	// taken means that EC2 terminates the instance.
	taken bool
}

func newBooks(seed int64, begin time.Time, plans []commitment.Commitment) (*books, error) {
	table, err := instancetypes.New(seed)
	if err != nil {
		return nil, fmt.Errorf("reading AWS's prices: %w", err)
	}
	return &books{begin: begin, table: table, spot: map[place][]meter.Rate{}, open: map[string]*life{}, plans: plans}, nil
}

// reprice notes the prices of the spot market from a time on.
func (b *books) reprice(at time.Time, spot map[string]map[string]float64) {
	for zone, types := range spot {
		for name, usd := range types {
			b.spot[place{zone, name}] = append(b.spot[place{zone, name}], meter.Rate{From: at, USD: usd})
		}
	}
}

// after draws a time from a range: a matter of the node's name and of what happens alone.
func after(name, what string, least, most time.Duration) time.Duration {
	hash := sha256.Sum256([]byte(what + "/" + name))
	return least + time.Duration(float64(most-least)*float64(hash[0])/256)
}

// launch notes that a node was launched: CreateFleet answers after a second or two, and the instance is pending for some seconds more.
func (b *books) launch(node *corev1.Node, of offer, at time.Time) {
	answered := at.Add(after(node.Name, "fleet", time.Second, 2*time.Second))
	l := &life{node: node, history: meter.Instance{
		ID: node.Name, Type: of.instanceType, Zone: of.zone, Spot: of.spot, Coverable: !of.spot,
		Launched: answered, Running: answered.Add(after(node.Name, "pending", 4*time.Second, 12*time.Second)),
		Volumes: []meter.Volume{{Type: "gp3", GiB: rootGiB, IOPS: 3000, MiBps: 125}},
	}}
	l.claim = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, UID: types.UID(node.Name), Labels: node.Labels, CreationTimestamp: metav1.NewTime(at.Truncate(time.Second)),
	}}
	l.claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	l.claim.Status.NodeName, l.claim.Status.ProviderID, l.claim.Status.Allocatable = node.Name, "aws:///"+of.zone+"/"+node.Name, node.Status.Allocatable
	l.set(karpv1.ConditionTypeLaunched, answered)
	b.lives, b.open[node.Name] = append(b.lives, l), l
}

// offer is what was bought.
type offer struct {
	instanceType, zone string
	spot               bool
}

// set sets a condition of the NodeClaim. Kubernetes keeps times in seconds.
func (l *life) set(condition string, at time.Time) {
	l.setFor(condition, condition, at)
}

func (l *life) setFor(condition, reason string, at time.Time) {
	l.claim.Status.Conditions = append(slices.Clone(l.claim.Status.Conditions), status.Condition{
		Type: condition, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(at.Truncate(time.Second)),
	})
}

// interrupt notes EC2's notice that it takes a spot instance back.
func (b *books) interrupt(name string, at time.Time) {
	l := b.open[name]
	l.taken, l.claim = true, l.claim.DeepCopy()
	l.claim.DeletionTimestamp = &metav1.Time{Time: at.Truncate(time.Second)}
	l.setFor(karpv1.ConditionTypeDisruptionReason, string(cloud.SpotInterrupted), at)
}

// end notes that slipway terminates a node's instance, or EC2 one that it takes back: it shuts down for half a minute or more, until which slipway keeps
// the NodeClaim.
func (b *books) end(name string, at time.Time) {
	l := b.open[name]
	l.history.Ending = at.Add(after(name, "terminate", 200*time.Millisecond, time.Second))
	l.history.Terminated = l.history.Ending.Add(after(name, "shutting-down", 25*time.Second, time.Minute))
	l.gone = l.history.Terminated.Add(after(name, "release", 0, 2*time.Second))
	if l.taken {
		l.history.Interrupted = true
		return
	}
	l.claim = l.claim.DeepCopy()
	l.claim.DeletionTimestamp = &metav1.Time{Time: at.Truncate(time.Second)}
	l.set(karpv1.ConditionTypeInstanceTerminating, at)
}

// minute lets slipway observe a minute, from its beginning on.
func (b *books) minute(at time.Time, in billing.Objects) {
	in.Commitments = b.plans
	for now := at; now.Before(at.Add(time.Minute)); now = now.Add(observes) {
		b.observe(now, in)
	}
	b.last = in
}

// observe lets slipway observe the cluster once.
func (b *books) observe(now time.Time, in billing.Objects) {
	in.Now = now
	for _, name := range slices.Sorted(maps.Keys(b.open)) {
		l := b.open[name]
		if !l.gone.IsZero() && now.After(l.gone) {
			delete(b.open, name)
			in.Claims = append(in.Claims, billing.Deleted(l.claim, l.gone))
			continue
		}
		if !now.Before(l.history.Launched) {
			in.Claims = append(in.Claims, l.claim)
			in.Nodes = append(in.Nodes, l.node)
		}
	}
	b.ledger.Observe(billing.Look(in))
}

// account returns what AWS meters.
func (b *books) account() *meter.Account {
	out := &meter.Account{Prices: map[string][]meter.Rate{}}
	for _, u := range instancetypes.Usages() {
		out.Prices[strings.TrimPrefix(u.Type, "USE1-")] = []meter.Rate{{USD: u.USD}}
	}
	onDemand := map[string]float64{}
	for _, t := range b.table.All() {
		onDemand[t.Name] = t.Price
	}
	for _, l := range b.lives {
		in := l.history
		in.Rates = []meter.Rate{{USD: onDemand[in.Type]}}
		if in.Spot {
			in.Rates = b.spot[place{in.Zone, in.Type}]
		}
		out.Instances = append(out.Instances, in)
	}
	for i := range b.plans {
		c := &b.plans[i]
		if c.Kind == commitment.ReservedInstances {
			out.Reserved = append(out.Reserved, meter.Reserved{ID: c.ID, Type: c.InstanceType, Zone: c.Zone, Count: c.Count, Hourly: c.USDPerHour})
			continue
		}
		plan := meter.SavingsPlan{ID: c.ID, Family: c.Family, USDPerHour: c.USDPerHour, Rates: map[string]float64{}}
		for name, usd := range onDemand {
			plan.Rates[name] = usd * (1 - c.Discount)
		}
		out.Plans = append(out.Plans, plan)
	}
	return out
}

// close returns what slipway's record has of the time until an end, in USD, and AWS's bill.
func (b *books) close(end time.Time) (recorded float64, metered meter.Bill) {
	b.observe(end, b.last)
	var records []bill.Record
	for _, d := range b.ledger.Days {
		records = append(records, bill.Record{Start: b.ledger.Start, Through: b.ledger.Through, Day: d})
	}
	return bill.New(records, bill.ByNodePool).Total, b.account().Bill(b.begin, end)
}
