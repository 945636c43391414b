package ec2error

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/internal/clip"
)

// Refusal is what EC2 answered about an offering. The zero value means that EC2 refused nothing.
type Refusal struct {
	// Code of the last answer.
	Code Code
	// Since is when EC2 refused first without a launch in between.
	Since time.Time
	// Attempts is how often it has refused since then.
	Attempts int
}

// Failure is an offering that EC2 refused.
type Failure struct {
	Refusal
	// InstanceType, CapacityType and Zone of the offering.
	InstanceType, CapacityType, Zone string
	// Message is EC2's text; may be empty.
	Message string
}

// Name returns the offering as messages show it.
func (f Failure) Name() string {
	return fmt.Sprintf("%s %s in %s", f.InstanceType, f.CapacityType, f.Zone)
}

const (
	// mostCodes, mostRemedies, mostNames and mostMessage, in bytes, bound the text of a Summary: each watcher of pods receives a condition in full.
	mostCodes    = 4
	mostRemedies = 3
	mostNames    = 1
	mostMessage  = 400
)

// ByCode are the failures of one code.
type ByCode struct {
	// Code of all of them.
	Code Code
	// Offerings is how many there are.
	Offerings int
	// Since is the first moment, Attempts the highest number.
	Since time.Time
	// Attempts is how often EC2 refused.
	Attempts int
	// Message is EC2's text of one of them.
	Message string
	// Names are some of the offerings, in their order.
	Names []string
}

// Summary describes failures, by code.
type Summary struct {
	// Codes in the order of their offerings' number, the most first.
	Codes []ByCode
	// Remedies are what lifts them, each once, those of the first code first.
	Remedies []string
	// Offerings is the number of all.
	Offerings int
}

// Summarize groups failures by code.
func Summarize(failures []Failure) Summary {
	byCode := map[Code]*ByCode{}
	remedies := map[Code]map[string]bool{}
	for _, f := range failures {
		b := byCode[f.Code]
		if b == nil {
			b = &ByCode{Code: f.Code, Since: f.Since}
			byCode[f.Code], remedies[f.Code] = b, map[string]bool{}
		}
		b.Offerings++
		if !f.Since.IsZero() && (b.Since.IsZero() || f.Since.Before(b.Since)) {
			b.Since = f.Since
		}
		b.Attempts = max(b.Attempts, f.Attempts)
		b.Names = append(b.Names, f.Name())
		if f.Message != "" && (b.Message == "" || f.Message < b.Message) {
			b.Message = f.Message // The smallest, so that the text does not depend on the order.
		}
		if remedy := f.Code.Remedy(f.InstanceType); remedy != "" {
			remedies[f.Code][remedy] = true
		}
	}
	out := Summary{Offerings: len(failures)}
	for _, b := range byCode {
		slices.Sort(b.Names)
		b.Names = b.Names[:min(len(b.Names), mostNames)]
		out.Codes = append(out.Codes, *b)
	}
	slices.SortFunc(out.Codes, func(a, b ByCode) int { return cmp.Or(b.Offerings-a.Offerings, cmp.Compare(a.Code, b.Code)) })
	for _, b := range out.Codes {
		for _, remedy := range slices.Sorted(maps.Keys(remedies[b.Code])) {
			if !slices.Contains(out.Remedies, remedy) {
				out.Remedies = append(out.Remedies, remedy)
			}
		}
	}
	return out
}

// String returns the first code with its number and since when, in a sentence of its own, then the others, EC2's texts and the remedies:
// "VcpuLimitExceeded in 2 of 3 offerings (m7i.large on-demand in a, ...) since 10:00:00 UTC, attempt 4. InsufficientInstanceCapacity in 1 (...).
// EC2's text: ... . What to do: ...".
func (s Summary) String() string {
	var parts, texts []string
	for i, b := range s.Codes {
		if i == mostCodes {
			parts = append(parts, fmt.Sprintf("Other codes: %d", len(s.Codes)-i))
			break
		}
		text := fmt.Sprintf("%s in %d", cmp.Or(string(b.Code), "no capacity"), b.Offerings)
		if i == 0 {
			text += fmt.Sprintf(" of %d offerings", s.Offerings)
		}
		text += " (" + strings.Join(b.Names, ", ")
		if b.Offerings > len(b.Names) {
			text += ", ..."
		}
		text += ")"
		if !b.Since.IsZero() {
			text += " since " + Clock(b.Since)
		}
		if b.Attempts > 0 {
			text += fmt.Sprintf(", attempt %d", b.Attempts)
		}
		if b.Message != "" {
			texts = append(texts, Clip(b.Message))
		}
		parts = append(parts, text)
	}
	out := strings.Join(parts, ". ")
	if len(texts) > 0 {
		out += ". EC2's text: " + strings.Join(texts, "; ")
	}
	if n := min(len(s.Remedies), mostRemedies); n > 0 {
		out += ". What to do: " + strings.Join(s.Remedies[:n], "; or ")
	}
	return out
}

// Clock returns the time of day as messages show it.
func Clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) + " UTC" }

// Clip returns EC2's text without the encoded part of a denial, which only `aws sts decode-authorization-message` reads, and with a bounded
// length.
func Clip(text string) string {
	text, _, _ = strings.Cut(text, " Encoded authorization failure message:")
	text = strings.TrimRight(strings.TrimSpace(text), ".")
	if len(text) <= mostMessage {
		return text
	}
	return clip.Bytes(text, mostMessage) + "..."
}
