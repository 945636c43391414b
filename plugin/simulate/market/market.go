package market

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/builtin"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// Market holds what can be bought.
type Market struct {
	// RegionOffer holds the types and prices, of the files or of EC2.
	catalog.RegionOffer

	// Zones are those in which every type is offered; empty if no file lists them and the objects have to (see Catalog).
	Zones []string
	// Commitments are the Savings Plans and Reserved Instances of the account.
	Commitments []commitment.Commitment
	// Interruptions are what is known of spot interruptions; nil if they are not priced. InterruptionCost is the price of one for a pod, in USD.
	Interruptions    *interruption.Known
	InterruptionCost float64
	// Refusals means that the prices came with what EC2 refuses now, of which there may be nothing.
	Refusals bool
	// Notes are sentences about what was assumed.
	Notes []string
	// Problems of the types and prices.
	Problems []input.Problem
	// noSpot means that no spot price was given.
	noSpot bool
	// refused are the offerings that EC2 refuses.
	refused refusals
}

// Files are the texts of the three files. Empty ones are replaced by the built-in catalog.
type Files struct {
	// InstanceTypes is the output of `aws ec2 describe-instance-types`.
	InstanceTypes []byte
	// Prices is {"on-demand": {TYPE: USD}, "dedicated": {TYPE: USD}, "spot": {ZONE: {TYPE: USD}}, "usage": {USAGE TYPE: USD}}, and "refused" and "standby" as the launcher's
	// API has them.
	Prices []byte
	// Zones is a list of names.
	Zones []byte
	// Commitments is a list of Savings Plans and Reserved Instances (commitment.Entry); without it there are none.
	Commitments []byte
	// Interruptions is the launcher's ConfigMap of spot interruptions; without it they are not priced. InterruptionCost is the price of one for a
	// pod, in USD.
	Interruptions    []byte
	InterruptionCost float64
	// Offer is what EC2 described; nil for the files above.
	Offer *catalog.RegionOffer
	// Now is the time at which commitments and refusals must not have ended.
	Now time.Time
	// Notes are sentences about where the texts are from.
	Notes []string
}

// Read reads the files. The error names the file that cannot be read.
func Read(f Files) (*Market, error) {
	m := &Market{InterruptionCost: f.InterruptionCost, Notes: slices.Clone(f.Notes)}
	if f.Offer != nil {
		return m, errors.Join(m.readOffer(f.Offer), m.readCommitments(f), m.readInterruptions(f.Interruptions))
	}
	return m, errors.Join(
		m.readTypes(f.InstanceTypes), m.readPrices(f.Prices, f.Now), m.readZones(f.Zones), m.readCommitments(f), m.readInterruptions(f.Interruptions),
	)
}

// readInterruptions reads the ConfigMap. An entry that cannot be read is a problem and left out.
func (m *Market) readInterruptions(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	object := corev1.ConfigMap{}
	if err := yaml.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("reading interruptions: a ConfigMap is expected: %w", err)
	}
	known, faults := interruption.Read(object.Data)
	for _, fault := range faults {
		m.problem("interruptions", "data", "%v", fault)
	}
	m.Interruptions = &known
	return nil
}

// readOffer takes what EC2 described.
func (m *Market) readOffer(o *catalog.RegionOffer) error {
	m.RegionOffer, m.Zones = *o, slices.Sorted(maps.Keys(o.Spot))
	m.Notes = append(m.Notes, fmt.Sprintf("instance types and prices: those of EC2 now, %s in %s", catalog.CountText(len(m.Types), "type"), catalog.CountText(len(m.Zones), "zone")))
	return fewZones("EC2", m.Zones)
}

func (m *Market) readTypes(text []byte) error {
	if len(text) == 0 {
		types, err := builtin.Types()
		if err != nil {
			return err
		}
		for _, t := range types {
			m.Types = append(m.Types, t.Facts())
		}
		m.Notes = append(m.Notes, fmt.Sprintf("instance types: the built-in catalogue, %s", catalog.CountText(len(types), "type")))
		return nil
	}
	types, faults, err := fromec2.Answer(text)
	if err != nil {
		return fmt.Errorf("instance types: %w", err)
	}
	m.Types = types
	for _, f := range faults {
		m.problem("instance type "+f.Type, f.Field, "%s", f.Message)
	}
	return nil
}

func (m *Market) readPrices(text []byte, now time.Time) error {
	if len(text) == 0 {
		return m.builtinPrices()
	}
	var prices struct {
		OnDemand  map[string]json.RawMessage `json:"on-demand"`
		Dedicated map[string]json.RawMessage `json:"dedicated"`
		Spot      map[string]json.RawMessage `json:"spot"`
		Usage     map[string]json.RawMessage `json:"usage"`
		Refused   json.RawMessage            `json:"refused"`
		Standby   bool                       `json:"standby"`
	}
	if err := json.Unmarshal(text, &prices); err != nil {
		return fmt.Errorf("prices: %w", err)
	}
	if len(prices.OnDemand) == 0 && len(prices.Spot) == 0 {
		return errors.New(`prices: neither "on-demand" nor "spot" has an entry`)
	}
	m.OnDemand, m.Spot = m.valid("on-demand", prices.OnDemand), map[string]map[string]float64{}
	m.Dedicated = m.valid("dedicated", prices.Dedicated)
	for _, zone := range slices.Sorted(maps.Keys(prices.Spot)) {
		var ofZone map[string]json.RawMessage
		if err := json.Unmarshal(prices.Spot[zone], &ofZone); err != nil {
			m.problem("prices", "spot."+zone, "prices by instance type are expected: there is no spot in the zone")
			continue
		}
		m.Spot[zone] = m.valid("spot."+zone, ofZone)
	}
	m.readRates(prices.Usage)
	var refused []refusal
	if len(prices.Refused) > 0 {
		if err := json.Unmarshal(prices.Refused, &refused); err != nil {
			m.problem("prices", "refused", "offerings with their codes are expected, as the launcher's API has them: nothing is refused")
		}
	}
	m.refused = readRefusals(refused, now)
	m.Notes = append(m.Notes, m.refused.note()...)
	m.Refusals = len(prices.Refused) > 0
	if prices.Standby {
		m.Notes = append(m.Notes, "what EC2 refuses is not known: the prices are those of a replica of the launcher that does not lead")
	}
	var none []string
	for _, t := range m.Types {
		if !m.sold(t.Name) {
			none = append(none, t.Name)
		}
	}
	if len(none) > 0 {
		m.problem("prices", "", "no price is known of %s, left out: %s", catalog.CountText(len(none), "instance type"), some(none, 5))
	}
	return nil
}

// readCommitments reads the commitments. One that cannot be read, or that ended, is a problem and left out.
func (m *Market) readCommitments(f Files) error {
	list, faults, err := commitment.Parse(f.Commitments, f.Now)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		m.problem("commitment "+fault.Entry, "", "%s; it is left out", fault.Message)
	}
	m.Commitments = list
	return nil
}

// readRates reads the prices by usage type. One that is not possible or not known is a problem, and the built-in one is used.
func (m *Market) readRates(usage map[string]json.RawMessage) {
	sheet := catalog.NewRateSheet()
	for _, name := range slices.Sorted(maps.Keys(usage)) {
		known, ok := sheet.Find(name)
		usd, possible := price(usage[name])
		switch {
		case !ok:
			m.problem("prices", "usage."+name, "is not known: one of %s is expected", strings.Join(catalog.UsageTypes(), ", "))
		case !possible:
			m.problem("prices", "usage."+name, "%s: the built-in price is used", priceExpected)
		default:
			sheet.Set(known, usd)
		}
	}
	m.Rates, _ = sheet.Done()
}

// mostPrice is more than any instance costs, in USD per hour: a larger price is a mistake.
const mostPrice = 100_000

// priceExpected says what a price must be.
const priceExpected = "must be a number of USD above 0, at most 100000"

// price reads one price; ok is false for what is none.
func price(text json.RawMessage) (usd float64, ok bool) {
	err := json.Unmarshal(text, &usd)
	return usd, err == nil && usd > 0 && usd <= mostPrice
}

// valid returns the prices that are possible.
func (m *Market) valid(field string, in map[string]json.RawMessage) map[string]float64 {
	out := make(map[string]float64, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		usd, ok := price(in[name])
		if !ok {
			m.problem("prices", field+"."+name, "%s: the type is not offered there", priceExpected)
			continue
		}
		out[name] = usd
	}
	return out
}

func (m *Market) sold(name string) bool {
	if m.OnDemand[name] > 0 {
		return true
	}
	for _, zone := range m.Spot {
		if zone[name] > 0 {
			return true
		}
	}
	return false
}

func (m *Market) builtinPrices() error {
	types, err := builtin.Types()
	if err != nil {
		return err
	}
	m.OnDemand = make(map[string]float64, len(types))
	for _, t := range types {
		m.OnDemand[t.Name] = t.Price
	}
	m.noSpot = true
	m.Notes = append(m.Notes, fmt.Sprintf("prices: the built-in ones, on demand in %s, Linux, of %s", builtin.Region, builtin.Date), noSpotNote)
	return nil
}

// noSpotNote says that spot is not planned.
const noSpotNote = "spot prices: none without --aws or --prices"

func (m *Market) readZones(text []byte) error {
	if len(text) > 0 {
		if err := json.Unmarshal(text, &m.Zones); err != nil {
			return fmt.Errorf("zones: %w", err)
		}
		if len(m.Zones) == 0 || slices.Contains(m.Zones, "") {
			return errors.New(`zones: a list of names such as ["us-east-1a"] is expected`)
		}
		slices.Sort(m.Zones)
		m.Zones = slices.Compact(m.Zones)
		return fewZones("zones", m.Zones)
	}
	// Spot prices name zones too.
	m.Zones = slices.Sorted(maps.Keys(m.Spot))
	return fewZones("prices: spot", m.Zones)
}

// maxZones is how many zones are planned for. The largest region has six availability zones and about twenty local ones, and each type is
// an offering in each of them.
const maxZones = 100

// fewZones returns an error if a file has more zones than are planned for.
func fewZones(file string, names []string) error {
	if len(names) > maxZones {
		return fmt.Errorf("%s: %d zones, at most %d are expected", file, len(names), maxZones)
	}
	return nil
}

func (m *Market) problem(object, field, format string, args ...any) {
	m.Problems = append(m.Problems, input.Problem{Object: object, Field: field, Message: fmt.Sprintf(format, args...)})
}

// some returns the first names of a list.
func some(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), len(list)-n)
}

// zone is a zone in which a class has subnets.
type zone struct{ Zone, ID string }

// offerings returns those of a type: on-demand in all zones if it has such a price, spot in the zones with a spot price.
func (m *Market) offerings(facts catalog.Facts, zones []zone) []catalog.Offering {
	var out []catalog.Offering
	name := facts.Name
	if len(facts.Zones) > 0 {
		zones = slices.DeleteFunc(slices.Clone(zones), func(z zone) bool { return !slices.Contains(facts.Zones, z.Zone) })
	}
	for _, z := range zones {
		if price := m.OnDemand[name]; price > 0 {
			out = append(out, catalog.Offering{Zone: z.Zone, ZoneID: z.ID, CapacityType: karpv1.CapacityTypeOnDemand, Price: price, Available: true})
		}
	}
	for _, z := range zones {
		if price := m.Spot[z.Zone][name]; price > 0 {
			out = append(out, catalog.Offering{Zone: z.Zone, ZoneID: z.ID, CapacityType: karpv1.CapacityTypeSpot, Price: price, Available: true})
		}
	}
	m.refused.mark(name, out)
	return out
}
