package commitment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/slipway-k8s/slipway/internal/manifest"
)

// Entry is a commitment as a file has it: a list of entries, YAML or JSON.
type Entry struct {
	// ID names the commitment. It is required, and no other entry has it.
	ID string `json:"id"`
	// Kind is one of the kinds.
	Kind Kind `json:"kind"`
	// USDPerHour is the amount of a Savings Plan. Of Reserved Instances it is what one of them costs, with its share of what was paid upfront; it may be left
	// out, and is for the bill alone.
	USDPerHour float64 `json:"usdPerHour,omitempty"`
	// DiscountPercent is by how much usage under a Savings Plan is cheaper than on demand.
	DiscountPercent float64 `json:"discountPercent,omitempty"`
	// Rates are USD per hour under a Savings Plan by instance type; types without a rate have the discount.
	Rates map[string]float64 `json:"rates,omitempty"`
	// Family of an EC2 Instance Savings Plan, such as m7g.
	Family string `json:"family,omitempty"`
	// InstanceType and Count of Reserved Instances.
	InstanceType string `json:"instanceType,omitempty"`
	Count        int    `json:"count,omitempty"`
	// Zone of zonal Reserved Instances.
	Zone string `json:"zone,omitempty"`
	// End such as 2027-03-01T00:00:00Z; without it the commitment does not end.
	End string `json:"end,omitempty"`
	// SharePercent of the commitment is this cluster's; 100 without it.
	SharePercent *float64 `json:"sharePercent,omitempty"`
}

// Fault is an entry that is left out.
type Fault struct {
	// Entry is the entry's ID, or its place in the list, such as entry 3.
	Entry string
	// Message says what is wrong, and what is expected.
	Message string
}

// maxEntries and maxUSD bound what one file may say: more is a mistake.
const (
	maxEntries = 1000
	maxUSD     = 1e6
)

// Parse returns the commitments of a file that have not ended, in its order, and the entries that are left out. The error means that the text is
// no list of entries.
func Parse(text []byte, now time.Time) ([]Commitment, []Fault, error) {
	var raw []yamlv3.Node
	if err := manifest.Check(text); err != nil {
		return nil, nil, fmt.Errorf("reading commitments: %w", err)
	}
	if err := yamlv3.Unmarshal(text, &raw); err != nil {
		return nil, nil, fmt.Errorf("reading commitments: a list of entries is expected: %s", oneLine(err))
	}
	if len(raw) > maxEntries {
		return nil, nil, fmt.Errorf("reading commitments: %d entries, at most %d are expected", len(raw), maxEntries)
	}
	var out []Commitment
	var faults []Fault
	seen := map[string]bool{}
	for i := range raw {
		var fields map[string]any
		err := raw[i].Decode(&fields)
		if err != nil {
			err = fmt.Errorf("an entry with fields is expected: %s", oneLine(err))
		}
		name := fmt.Sprintf("entry %d", i+1)
		if id, ok := fields["id"].(string); ok && id != "" {
			name = id
		}
		c := Commitment{}
		if err == nil {
			c, err = entry(fields)
		}
		switch {
		case err != nil:
		case seen[c.ID]:
			err = fmt.Errorf("id: an ID that no other entry has is expected, got %q again", c.ID)
		case c.Ended(now):
			err = fmt.Errorf("end: it ended at %s", c.End.UTC().Format(time.RFC3339))
		}
		seen[c.ID] = seen[c.ID] || err == nil
		if err != nil {
			faults = append(faults, Fault{Entry: name, Message: err.Error()})
			continue
		}
		out = append(out, c)
	}
	return out, faults, nil
}

// entry reads one entry. A field that is not known is an error: it may be a mistyped amount.
func entry(fields map[string]any) (Commitment, error) {
	if err := finite(fields, ""); err != nil {
		return Commitment{}, err
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return Commitment{}, err
	}
	e := Entry{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		return Commitment{}, readable(err)
	}
	return e.Commitment()
}

// Commitment returns the commitment of an entry. The error has the field that is wrong, and what is expected of it.
func (e *Entry) Commitment() (c Commitment, err error) {
	c = Commitment{
		ID: e.ID, Kind: e.Kind, USDPerHour: e.USDPerHour, Discount: e.DiscountPercent / 100, Rates: e.Rates, Family: e.Family,
		InstanceType: e.InstanceType, Count: e.Count, Zone: e.Zone, Share: 1,
	}
	if e.SharePercent != nil {
		c.Share = *e.SharePercent / 100
	}
	if e.End != "" {
		if c.End, err = time.Parse(time.RFC3339, e.End); err != nil {
			return Commitment{}, fmt.Errorf("end: a time such as 2027-03-01T00:00:00Z is expected, got %q", e.End)
		}
	}
	return c, c.Validate()
}

// EntryOf returns the entry of a commitment.
func EntryOf(c *Commitment) Entry {
	out := Entry{
		ID: c.ID, Kind: c.Kind, USDPerHour: c.USDPerHour, DiscountPercent: c.Discount * 100, Rates: c.Rates, Family: c.Family,
		InstanceType: c.InstanceType, Count: c.Count, Zone: c.Zone,
	}
	if c.Share != 1 {
		out.SharePercent = new(c.Share * 100)
	}
	if !c.End.IsZero() {
		out.End = c.End.UTC().Format(time.RFC3339)
	}
	return out
}

// oneLine is an error of the YAML decoder, which has a line for each of its values.
func oneLine(err error) string {
	if several, ok := errors.AsType[*yamlv3.TypeError](err); ok {
		return strings.Join(several.Errors, "; ")
	}
	return err.Error()
}

// finite returns an error if a number is none that JSON has.
func finite(fields map[string]any, within string) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name].(type) {
		case float64:
			if math.IsNaN(value) || math.IsInf(value, 0) {
				return fmt.Errorf("%s%s: a number is expected, got %v", within, name, value)
			}
		case map[string]any:
			if err := finite(value, within+name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// readable is an error of the decoder in the words of the file.
func readable(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	want := map[string]string{"float64": "a number", "int": "a whole number", "string": "a text"}[wrong.Type.String()]
	if want == "" {
		want = "a map of numbers"
	}
	return fmt.Errorf("%s: %s is expected, got %s", wrong.Field, want, wrong.Value)
}

// Validate returns the first mistake of a commitment: the field, and what is expected of it.
func (c *Commitment) Validate() error {
	switch {
	case c.ID == "":
		return fmt.Errorf("id: a name is expected, such as the ID of the Savings Plan")
	case !(c.Share >= 0 && c.Share <= 1):
		return fmt.Errorf("sharePercent: a percentage from 0 to 100 is expected, got %v", c.Share*100)
	case c.Kind == ReservedInstances:
		return c.validateReserved()
	case c.Kind == EC2InstanceSavingsPlan || c.Kind == ComputeSavingsPlan:
		return c.validatePlan()
	}
	return fmt.Errorf("kind: %s, %s or %s is expected, got %q", ReservedInstances, EC2InstanceSavingsPlan, ComputeSavingsPlan, c.Kind)
}

func (c *Commitment) validateReserved() error {
	family, size, ok := strings.Cut(c.InstanceType, ".")
	switch {
	case !ok || family == "" || size == "":
		return fmt.Errorf("instanceType: an instance type such as m7g.large is expected, got %q", c.InstanceType)
	case c.Count < 1 || c.Count > maxUSD:
		return fmt.Errorf("count: a number of instances from 1 to %.0f is expected, got %d", maxUSD, c.Count)
	case c.USDPerHour != 0 && !positive(c.USDPerHour):
		return fmt.Errorf("usdPerHour: a number of USD above 0, at most %.0f, is expected for each instance, or none, got %v", maxUSD, c.USDPerHour)
	case c.Discount != 0 || len(c.Rates) > 0 || c.Family != "":
		return fmt.Errorf("discountPercent, rates and family are those of Savings Plans: instanceType, count, zone and usdPerHour are expected")
	}
	return nil
}

func (c *Commitment) validatePlan() error {
	switch {
	case !positive(c.USDPerHour):
		return fmt.Errorf("usdPerHour: a number of USD above 0, at most %.0f, is expected, got %v", maxUSD, c.USDPerHour)
	case !(c.Discount >= 0 && c.Discount < 1):
		return fmt.Errorf("discountPercent: a percentage from 0 to below 100 is expected, got %v", c.Discount*100)
	case c.Discount == 0 && len(c.Rates) == 0:
		return fmt.Errorf("discountPercent: the percentage by which the plan is cheaper than on demand is expected, or rates")
	case (c.Kind == EC2InstanceSavingsPlan) != (c.Family != ""):
		return fmt.Errorf("family: the instance family of an %s is expected, such as m7g, and none for a %s", EC2InstanceSavingsPlan, ComputeSavingsPlan)
	case c.InstanceType != "" || c.Count != 0 || c.Zone != "":
		return fmt.Errorf("instanceType, count and zone are those of %s: none is expected for a Savings Plan", ReservedInstances)
	}
	types := make([]string, 0, len(c.Rates))
	for name := range c.Rates {
		types = append(types, name)
	}
	slices.Sort(types)
	for _, name := range types {
		if !positive(c.Rates[name]) {
			return fmt.Errorf("rates[%s]: a number of USD per hour above 0 is expected, got %v", name, c.Rates[name])
		}
	}
	return nil
}

func positive(usd float64) bool { return usd > 0 && usd <= maxUSD && !math.IsNaN(usd) }
