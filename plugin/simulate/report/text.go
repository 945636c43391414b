package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

const (
	// longestName is how many characters of a name are shown, longestText how many of a message or of several names.
	longestName = 100
	// longestText is described at longestName.
	longestText = 400
	// namesShown is how many names a cell has.
	namesShown = 5
)

// name cuts a name that others gave.
func name(s string) string { return cut(s, longestName) }

// short cuts a text of others.
func short(s string) string { return cut(s, longestText) }

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + "…"
}

// some returns the first names of a list and the number of the others.
func some(names []string) string {
	shown := names
	if len(names) > namesShown+1 {
		shown = names[:namesShown]
	}
	out := short(strings.Join(shown, ", "))
	if n := len(names) - len(shown); n > 0 {
		out += fmt.Sprintf(" and %s more", number(n))
	}
	return out
}

// number writes an integer with commas, such as 5,000.
func number(n int) string { return commas(strconv.Itoa(n)) }

func commas(s string) string {
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// count writes a number with its noun.
func count(n int, noun string) string {
	return strings.Replace(catalog.CountText(n, noun), strconv.Itoa(n), number(n), 1)
}

// usd writes a price per hour; a question mark where it is not known.
func usd(perHour float64, known bool) string {
	switch {
	case !known:
		return "?"
	case perHour >= 1000:
		return cents(perHour)
	}
	return fmt.Sprintf("%.4f", perHour)
}

// month writes what a price per hour is per month.
func month(perHour float64, known bool) string {
	if !known {
		return "?"
	}
	return cents(perHour * catalog.HoursPerMonth)
}

// cents writes an amount with commas and two digits behind the point.
func cents(amount float64) string {
	whole, rest, _ := strings.Cut(fmt.Sprintf("%.2f", amount), ".")
	return commas(whole) + "." + rest
}

// percent writes a share of 0 to 1.
func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// width writes a coordinate in percent, cut to what a picture has.
func width(share float64) string {
	if math.IsNaN(share) {
		share = 0
	}
	return strconv.FormatFloat(math.Round(10000*min(max(share, 0), 1))/100, 'f', -1, 64)
}

// shareOf returns requested over allocatable.
func shareOf(s simulate.Share) float64 {
	if s.Allocatable <= 0 {
		return 0
	}
	return s.Requested / s.Allocatable
}

// cpuUse is a share of cores.
func cpuUse(s simulate.Share) use { return newUse(s, 1, "") }

// memoryUse is a share of memory.
func memoryUse(s simulate.Share) use { return newUse(s, 1<<30, " GiB") }

func newUse(s simulate.Share, unit float64, name string) use {
	if s.Allocatable <= 0 {
		return use{}
	}
	share := shareOf(s)
	return use{
		Known: true, Width: width(share), Percent: percent(share),
		Of: fmt.Sprintf("%s of %s%s", amount(s.Requested/unit), amount(s.Allocatable/unit), name),
	}
}

// amount writes a number with one digit behind the point at most, and none where it is large.
func amount(v float64) string {
	if v >= 1000 {
		return number(int(math.Round(v)))
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// ownersOf counts pods by workload.
func ownersOf(pods []string, owners map[string]string) map[string]int {
	out := map[string]int{}
	for _, pod := range pods {
		owner := owners[pod]
		if owner == "" {
			owner = "Pod " + pod
		}
		out[owner]++
	}
	return out
}

// workloads names the workloads of pods.
func workloads(pods []string, owners map[string]string) string {
	return short(simulate.WorkloadNames(ownersOf(pods, owners)))
}

// remarks are the lines about the input.
func remarks(n notes) []remark {
	var out []remark
	for _, kind := range slices.Sorted(maps.Keys(n.ignored)) {
		out = append(out, remark{"ignored", short(fmt.Sprintf("%d of kind %s", n.ignored[kind], kind))})
	}
	for _, note := range n.said {
		out = append(out, remark{"note", short(note)})
	}
	for _, p := range n.problems {
		out = append(out, remark{"problem", short(p.String())})
	}
	if more := len(out) - maxRemarks; more > 0 {
		out = append(out[:maxRemarks], remark{"note", fmt.Sprintf("and %s more: standard error has all", number(more))})
	}
	return out
}

// maxRemarks is how many lines about the input are shown.
const maxRemarks = 100
