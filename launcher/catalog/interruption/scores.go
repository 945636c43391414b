package interruption

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	// BestScore is the best placement score, of a spot request that is highly likely to succeed; 1 is the worst (EC2, GetSpotPlacementScores).
	BestScore = 10
	// ScoresKey is the key of the scores in the ConfigMap.
	ScoresKey = "placement-scores.json"
	// askAgain is how often EC2 is asked about a family.
	askAgain = time.Hour
	// askedWithin and mostNew bound new requests: "we can limit the number of new request configurations within a 24-hour period", for example to 10
	// (AWS, "Spot placement score").
	askedWithin, mostNew = 24 * time.Hour, 8
	// mostFamilies bounds the scores.
	mostFamilies = 100
	// mostPerHour bounds a prior with a score.
	mostPerHour = 1
)

// FamilyScores are EC2's spot placement scores of an instance family.
type FamilyScores struct {
	// Since is when EC2 was asked about it first, and At when last.
	Since time.Time `json:"since,omitzero"`
	At    time.Time `json:"at,omitzero"`
	// Zones are the scores, 1 to 10, by zone.
	Zones map[string]int `json:"zones"`
}

// Scores are EC2's spot placement scores by instance family.
type Scores map[string]FamilyScores

// Family returns the family of an instance type: m5 of m5.large.
func Family(instanceType string) string {
	family, _, _ := strings.Cut(instanceType, ".")
	return family
}

// factor is by how much more often than by the prior of its type an offering is expected to be interrupted: each point less than the best doubles it.
func (s Scores) factor(o Offering) float64 {
	score, ok := s[Family(o.InstanceType)].Zones[o.Zone]
	if !ok {
		return 1
	}
	return math.Exp2(float64(BestScore - score))
}

// Due returns the family of wanted that EC2 is asked about now, or "" for none: each once per hour, and within 24 hours at most mostNew that it was not
// asked about before.
func (s Scores) Due(now time.Time, wanted []string) string {
	fresh, next := 0, ""
	for _, f := range s {
		if now.Sub(f.Since) < askedWithin {
			fresh++
		}
	}
	for _, name := range wanted {
		f, known := s[name]
		if known && now.Sub(f.At) >= askAgain {
			return name
		}
		if !known && fresh < mostNew && next == "" {
			next = name
		}
	}
	return next
}

// Answered returns the scores with EC2's answer about a family, and whether that changes any. Families of which EC2 was not asked for a day are dropped.
func (s Scores) Answered(now time.Time, family string, zones map[string]int) (_ Scores, changed bool) {
	out := maps.Clone(s)
	if out == nil {
		out = Scores{}
	}
	before, known := out[family]
	since := before.Since
	if !known {
		since = now
	}
	out[family] = FamilyScores{Since: since, At: now, Zones: zones}
	maps.DeleteFunc(out, func(_ string, f FamilyScores) bool { return now.Sub(f.At) >= askedWithin })
	return out, len(out) < len(s) || !maps.Equal(before.Zones, zones)
}

// Encode returns the scores as JSON.
func (s Scores) Encode() (string, error) {
	out := Scores{}
	for name, f := range s {
		out[name] = FamilyScores{Since: f.Since.UTC().Truncate(time.Second), At: f.At.UTC().Truncate(time.Second), Zones: f.Zones}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("encoding placement scores: %w", err)
	}
	return string(text), nil
}

// ParseScores reads what Encode returned; an empty text has no scores. Faults are what is left out.
func ParseScores(text string) (_ Scores, faults []error, err error) {
	raw := Scores{}
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return nil, nil, fmt.Errorf("reading placement scores: %w", err)
	}
	out := Scores{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if len(out) == mostFamilies {
			faults = append(faults, fmt.Errorf("reading placement scores: at most %d families are read", mostFamilies))
			break
		}
		f := raw[name]
		for _, zone := range slices.Sorted(maps.Keys(f.Zones)) {
			if score := f.Zones[zone]; score < 1 || score > BestScore {
				faults = append(faults, fmt.Errorf("reading placement scores: %s: %s: a score from 1 to %d is expected, got %d; it is left out", name, zone, BestScore, score))
				delete(f.Zones, zone)
			}
		}
		out[name] = f
	}
	return out, faults, nil
}
