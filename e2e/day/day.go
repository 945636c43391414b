package day

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/billing"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/expect"
)

// interruptedEvery is how long a spot instance lives on average.
const interruptedEvery = 60 * time.Hour

// Config of a day.
type Config struct {
	// Seed of the workload, the prices and the interruptions.
	Seed uint64
	// From and Minutes are the part of the day that is replayed. Default: all of it.
	From, Minutes int
	// Commitments of the account. With them, pods that may be interrupted may run on demand as well.
	Commitments []commitment.Commitment
	// Unknown means that slipway does not know them. They still pay.
	Unknown bool
}

// Bill is what a policy's day came to.
type Bill struct {
	// Policy that it is about.
	Policy Policy
	// Dollars that were paid, commitments included, minute by minute.
	Dollars float64
	// Recorded is what the record of slipway's bill has of it, Metered what AWS's meter has, both by the second.
	Recorded, Metered float64
	// Committed is what was paid for commitments, Used how much of it was used, in USD.
	Committed, Used float64
	// SameNodes is what a linear program pays that has the nodes of the replay, with their lifetimes and the most that their pods requested, and knows all
	// commitments and prices: it chooses the offerings of the nodes and what the commitments pay for. Commitments and volumes are included, as in Metered.
	SameNodes float64
	// Evictions that the policy made, of Moved different pods, and Interrupted pods that lost their spot node.
	Evictions, Moved, Interrupted int
	// Launched and Ended nodes.
	Launched, Ended int
	// Pods that came, and Pending seconds that they waited for a ready node all together.
	Pods    int
	Pending float64
	// Peak is the most nodes at a time.
	Peak int
	// Hours are what the nodes of each hour of the day came to.
	Hours [24]Hour
	// Took is what planning and deciding took on the wall.
	Took time.Duration
}

// Replay replays the day for a policy.
func Replay(ctx context.Context, cfg Config, p Policy) (Bill, error) {
	began := time.Now()
	prices := rand.New(rand.NewPCG(cfg.Seed, 2))
	m, err := newMarket(prices)
	if err != nil {
		return Bill{}, err
	}
	if !cfg.Unknown {
		m.Commitments = cfg.Commitments
	}
	c := newCluster(ctx, m, cfg.Commitments)
	c.bill.Policy, c.from = p, cfg.From
	c.ordered, c.costs = p == Ordered, p == On || p == Packed
	if p.expects() {
		c.growth = &expect.Growth{}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.scheduler, err = newKubeScheduler(ctx, p == Packed); err != nil {
		return Bill{}, err
	}
	if c.books, err = newBooks(int64(cfg.Seed), c.clock(), cfg.Commitments); err != nil {
		return Bill{}, err
	}
	c.reprice(ctx)
	for minute, change := range cfg.changes() {
		c.now = minute
		if minute%priceStep == priceStep-1 {
			drift(m, prices)
			c.reprice(ctx)
		}
		if err := c.minute(ctx, cfg, p, change); err != nil {
			return Bill{}, fmt.Errorf("minute %d: %w", minute, err)
		}
		c.books.loads(c.requests())
		c.books.minute(c.clock(), billing.Objects{Pods: c.placed(), Types: c.types})
	}
	recorded, metered := c.books.close(c.clock().Add(time.Minute))
	c.bill.Recorded, c.bill.Metered, c.bill.Took = recorded, metered.Total(), time.Since(began)
	for _, u := range metered.Commitments {
		c.bill.Committed += u.USD
		c.bill.Used += u.USD * u.Used
	}
	same, err := c.books.sameNodes(c.types[c.known["steady"].TypesKey()], c.known, metered)
	if err != nil {
		return Bill{}, fmt.Errorf("bounding the bill of the same nodes: %w", err)
	}
	c.bill.SameNodes = same.least(c.bill.Metered, cfg.Commitments)
	return c.bill, nil
}

// changes are those of the part of the day, with all that is there when it begins in the first minute.
func (cfg Config) changes() []change {
	if cfg.Minutes == 0 {
		cfg.Minutes = minutesPerDay - cfg.From
	}
	all := workload(cfg.Seed, cfg.From+cfg.Minutes)
	before := cluster{pods: map[string]*pod{}, steps: 1}
	for minute, one := range all[:cfg.From+1] {
		before.now = minute
		before.apply(one)
	}
	var first change
	for _, name := range slices.Sorted(maps.Keys(before.pods)) {
		first.come = append(first.come, before.pods[name].object)
	}
	return append([]change{first}, all[cfg.From+1:]...)
}

// minute lets one go by.
func (c *cluster) minute(ctx context.Context, cfg Config, p Policy, ch change) error {
	// 1. The workload changes.
	c.apply(ch)
	c.bill.Pods += len(ch.come)
	count(c)
	nodes, pods := running(c)
	bound, err := c.scheduler.bind(ctx, ch.come, nodes, pods)
	if err != nil {
		return err
	}
	for pod, node := range bound {
		c.put(node, pod)
	}
	// 2. EC2 takes spot nodes.
	taken := c.interruptions(perHour(interruptedEvery), func(name string, minute int) float64 {
		hash := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%d", cfg.Seed, name, minute))
		return float64(binary.BigEndian.Uint32(hash[:])) / (1 << 32)
	})
	c.bill.Interrupted += c.leave(taken)
	for _, name := range taken {
		c.nodes[name].taken, c.nodes[name].gone = true, c.now+noticed
		c.books.interrupt(name, c.clock())
	}
	// 3. The policy gives nodes up, once what waits has its place.
	if c.now%decide == decide-1 && !c.waiting() {
		gone, err := c.choose(ctx, p)
		if err != nil {
			return err
		}
		c.movedOnce(gone)
		c.calm.count(c, gone)
		c.bill.Evictions += c.leave(gone)
	}
	// 4. What waits is planned.
	if c.waiting() {
		placed, err := c.plan(ctx, nil)
		if err != nil {
			return err
		}
		if n := len(placed.Plan.Unplaced) + len(placed.Held); n > 0 {
			return fmt.Errorf("%d classes of pods have no place: %+v %+v", n, placed.Plan.Unplaced, placed.Held)
		}
		c.settle(&placed.Plan)
	}
	c.avoid = nil
	// 5. What is there is paid.
	note(c)
	c.pay()
	return nil
}

// running are the nodes that are ready and stay, and the pods on them.
func running(c *cluster) (nodes []*corev1.Node, pods []*corev1.Pod) {
	on := podsOn(c)
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		if n.gone != 0 || n.ready > c.now {
			continue
		}
		nodes = append(nodes, n.object)
		for _, p := range on[name] {
			pods = append(pods, boundTo(p, name))
		}
	}
	return nodes, pods
}

// movedOnce counts the pods of nodes that are given up, each one once.
func (c *cluster) movedOnce(gone []string) {
	for _, q := range c.pods {
		if !q.moved && slices.Contains(gone, q.node) {
			q.moved = true
			c.bill.Moved++
		}
	}
}

func (c *cluster) pay() {
	c.bill.Peak = max(c.bill.Peak, len(c.nodes))
	for _, n := range c.nodes {
		c.bill.Dollars += c.price(n.offer) / 60
	}
	c.payCommitments()
	for name, n := range c.nodes {
		if n.gone != 0 && n.gone <= c.now {
			delete(c.nodes, name)
			if minutes := c.now + 1 - n.born; n.taken && minutes < 60 {
				c.bill.Dollars -= (c.price(n.offer) - c.fixed) * float64(minutes) / 60 // EC2 charges nothing for it.
			}
			c.books.end(name, c.clock().Add(time.Minute))
			c.bill.Ended++
		}
	}
}

// payCommitments pays the commitments of a minute, and takes off the bill what they pay for.
func (c *cluster) payCommitments() {
	counts := map[catalog.Billed]int{}
	for _, n := range c.nodes {
		if b, ok := catalog.BilledOnDemand(n.object.Labels); ok {
			counts[b]++
		}
	}
	var uses []commitment.Use
	for b, n := range counts {
		uses = append(uses, commitment.Use{Name: b.InstanceType + "/" + b.Zone, Count: n, InstanceType: b.InstanceType, Zone: b.Zone, OnDemand: c.market.OnDemand[b.InstanceType]})
	}
	list := c.commitments
	paid := commitment.Apply(list, uses)
	for _, u := range uses {
		c.bill.Dollars -= paid.Covered[u.Name] * float64(u.Count) * u.OnDemand / 60
	}
	for i := range list {
		c.bill.Dollars += list[i].Cost() / 60
	}
}

// Commit returns a Compute Savings Plan that pays for a share of the least that the day's pods cost on demand at any time.
func Commit(ctx context.Context, cfg Config, share, discount float64) ([]commitment.Commitment, error) {
	least, err := cfg.leastOnDemand(ctx)
	return []commitment.Commitment{{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: share * least * (1 - discount), Discount: discount, Share: 1}}, err
}

// CommitFamilies returns commitments that pay for as much as those of Commit, a third each: a Compute Savings Plan, a Savings Plan for one family and
// Reserved Instances of another one. Neither family has the cheapest instances on demand.
func CommitFamilies(ctx context.Context, cfg Config, share, discount float64) ([]commitment.Commitment, error) {
	least, err := cfg.leastOnDemand(ctx)
	if err != nil {
		return nil, err
	}
	m, err := newMarket(rand.New(rand.NewPCG(cfg.Seed, 2)))
	if err != nil {
		return nil, err
	}
	const reserved = "c7i.large"
	third, usd := share*least/3, m.OnDemand[reserved]
	return []commitment.Commitment{
		{ID: "compute", Kind: commitment.ComputeSavingsPlan, USDPerHour: third * (1 - discount), Discount: discount, Share: 1},
		{ID: "family", Kind: commitment.EC2InstanceSavingsPlan, Family: "m7i", USDPerHour: third * (1 - discount), Discount: discount, Share: 1},
		{ID: "reserved", Kind: commitment.ReservedInstances, InstanceType: reserved, Count: int(third / usd), USDPerHour: usd * (1 - discount), Discount: discount, Share: 1},
	}, nil
}

// Write prints the bills as a table.
func Write(w io.Writer, lower float64, bills []Bill) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "consolidation\tUSD\trecord / meter\tover bound\twith evictions\tpods\tevictions\tof pods\tinterrupted\tnodes launched\tended\tpeak\tpending s/pod\tdecided in")
	for _, b := range bills {
		fmt.Fprintf(t, "%s\t%.2f\t%.4f\t%.1f%%\t%.2f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%s\n", b.Policy, b.Metered, b.Recorded/b.Metered, 100*(b.Metered/lower-1), b.Metered+0.005*float64(b.Evictions), b.Pods, b.Evictions, b.Moved, b.Interrupted,
			b.Launched, b.Ended, b.Peak, b.Pending/float64(max(b.Pods, 1)), b.Took.Round(time.Second))
	}
	fmt.Fprintf(t, "lower bound\t%.2f\n", lower)
	return t.Flush()
}
