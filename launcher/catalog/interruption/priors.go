package interruption

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

const (
	// byDefault is the share of spot instances that are interrupted within a month where nothing is known: "less than 5% on average across all
	// Regions and instance types" (AWS, "Spot Instance advisor").
	byDefault = 0.05
	// hoursPerMonth is AWS's month.
	hoursPerMonth = 730
	// defaultKey is the key of the prior of all other instance types.
	defaultKey = "default"
)

// Priors are the shares of spot instances, 0 to 1, that are interrupted within a month, by instance type. The zero value is the default.
type Priors struct {
	byType map[string]float64
	// Scores are EC2's placement scores, if it was asked for them.
	Scores Scores
}

// ofOffering returns the prior of an offering, with its placement score, as interruptions per hour of an instance.
func (p Priors) ofOffering(o Offering) float64 {
	return min(p.PerHour(o.InstanceType)*p.Scores.factor(o), mostPerHour)
}

// PerHour returns the prior of an instance type as interruptions per hour of an instance.
func (p Priors) PerHour(instanceType string) float64 {
	monthly, ok := p.byType[instanceType]
	if !ok {
		if monthly, ok = p.byType[defaultKey]; !ok {
			monthly = byDefault
		}
	}
	return -math.Log1p(-monthly) / hoursPerMonth
}

// buckets are those of the Spot Instance advisor. An instance type counts with the middle of its bucket, and with a quarter beyond the last.
func buckets() map[string]float64 {
	return map[string]float64{"<5%": 0.025, "5-10%": 0.075, "10-15%": 0.125, "15-20%": 0.175, ">20%": 0.25}
}

// ParsePriors reads YAML: an instance type, or default, and its share within a month, as a bucket of the Spot Instance advisor such as "5-10%" or
// as a percentage below 100. Faults are entries that are left out.
func ParsePriors(text string) (_ Priors, faults []error, err error) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal([]byte(text), &document); err != nil {
		return Priors{}, nil, fmt.Errorf("reading priors: %w", err)
	}
	out := Priors{byType: map[string]float64{}}
	if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
		return out, nil, nil
	}
	list := document.Content[0]
	if list.Kind != yamlv3.MappingNode {
		return Priors{}, nil, fmt.Errorf("reading priors: line %d: instance types with their shares are expected, such as m5.large: 5-10%%", list.Line)
	}
	for i := 0; i+1 < len(list.Content); i += 2 { // Keys and values alternate.
		name, value := list.Content[i].Value, list.Content[i+1]
		monthly, err := monthlyShare(value)
		if _, again := out.byType[name]; again {
			err = errors.New("it has an entry before this one")
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("reading priors: line %d: %s: %w; it is left out", value.Line, name, err))
			continue
		}
		out.byType[name] = monthly
	}
	return out, faults, nil
}

// monthlyShare returns the share, 0 to 1, of an entry.
func monthlyShare(value *yamlv3.Node) (float64, error) {
	if value.Kind == yamlv3.AliasNode {
		value = value.Alias
	}
	text := strings.ReplaceAll(value.Value, " ", "")
	if monthly, ok := buckets()[text]; ok {
		return monthly, nil
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(percent >= 0 && percent < 100) {
		return 0, fmt.Errorf("%q: a bucket such as 5-10%%, or a percentage from 0 up to 100, is expected", text)
	}
	return percent / 100, nil
}

// The keys of the ConfigMap that has what is known.
const (
	// LearnedKey is the key of what was learned.
	LearnedKey = "learned.json"
	// PriorsKey is the key of the user's priors.
	PriorsKey = "priors.yaml"
)

// Known is what is known of interruptions: what was learned, and priors.
type Known struct {
	// Record is what was learned.
	Record
	// Priors are those of the user.
	Priors Priors
}

// PerHour returns the estimated interruptions of an instance of the offering per hour.
func (k *Known) PerHour(o Offering) float64 { return k.Record.PerHour(o, k.Priors) }

// Read reads the data of the ConfigMap. Faults are what is left out.
func Read(data map[string]string) (out Known, faults []error) {
	record, err := Decode(data[LearnedKey])
	if err != nil {
		faults = append(faults, fmt.Errorf("data[%s]: %w", LearnedKey, err))
	}
	priors, left, err := ParsePriors(data[PriorsKey])
	if err != nil {
		left = append(left, err)
	}
	for _, fault := range left {
		faults = append(faults, fmt.Errorf("data[%s]: %w", PriorsKey, fault))
	}
	scores, left, err := ParseScores(data[ScoresKey])
	if err != nil {
		left = append(left, err)
	}
	for _, fault := range left {
		faults = append(faults, fmt.Errorf("data[%s]: %w", ScoresKey, fault))
	}
	priors.Scores = scores
	return Known{record, priors}, faults
}
