package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// costPart is a part of a price, as bars and legends have it.
type costPart struct {
	class, name string
	of          func(catalog.Cost) float64
}

// costParts are the parts of a price in the order of a bar.
func costParts() []costPart {
	return []costPart{
		{"p1", "instances", func(c catalog.Cost) float64 { return c.Instance }},
		{"p2", "volumes", func(c catalog.Cost) float64 { return c.Volumes }},
		{"p3", "public IPv4", func(c catalog.Cost) float64 { return c.PublicIPv4 }},
		{"p4", "CPU beyond the baseline", func(c catalog.Cost) float64 { return c.Burst }},
		{"p5", "declared by NodePools", func(c catalog.Cost) float64 { return c.Declared }},
		{"p6", "expected interruptions", func(c catalog.Cost) float64 { return c.Interruptions }},
	}
}

// charge is a line of a bill: a cost with its parts, or without if they are not known.
type charge struct {
	name    string
	perHour float64
	parts   catalog.Cost
	// unknown means that no node of it has a known price.
	unknown bool
}

// newBill draws the charges on one scale.
func newBill(charges []charge) bill {
	most := 0.0
	for _, c := range charges {
		most = max(most, c.perHour)
	}
	var out bill
	seen := map[string]bool{}
	for _, c := range charges {
		row := billRow{Name: c.name, Hour: usd(c.perHour, !c.unknown), Month: month(c.perHour, !c.unknown), Parts: parts(c.parts)}
		x := 0.0
		for _, p := range costParts() {
			if v := p.of(c.parts); v > 0 && most > 0 {
				row.Segments = append(row.Segments, segment{X: width(x / most), Width: width(v / most), Class: p.class})
				x += v
				seen[p.class] = true
			}
		}
		if len(row.Segments) == 0 && most > 0 {
			row.Segments = []segment{{X: "0", Width: width(c.perHour / most), Class: "p0"}}
			seen["p0"] = seen["p0"] || c.perHour > 0
		}
		out.Rows = append(out.Rows, row)
	}
	for _, p := range costParts() {
		if seen[p.class] {
			out.Legend = append(out.Legend, legend{p.class, p.name})
		}
	}
	if seen["p0"] {
		out.Legend = append(out.Legend, legend{"p0", "not split into parts"})
	}
	return out
}

// maxAreas is how many areas a picture has.
const maxAreas = 80

// mapOf draws nodes: width is price, the filled part what pods request of CPU or memory, whichever is more. The scale is in USD per hour.
func mapOf(title string, nodes []simulate.NodeUse, scale float64) nodeMap {
	out := nodeMap{Title: title}
	sum := total(nodes)
	if scale <= 0 || sum.Price <= 0 {
		return out
	}
	all := groups(nodes)
	slices.SortStableFunc(all, func(a, b alike) int { return cmp.Compare(b.Price, a.Price) })
	x, filled := 0.0, 0.0
	for i, g := range all {
		share := min(max(shareOf(g.CPU), shareOf(g.Memory)), 1)
		filled += share * g.Price
		if i >= maxAreas || g.Price <= 0 {
			continue
		}
		out.Areas = append(out.Areas, area{
			X: width(x / scale), Width: width(g.Price / scale), Top: width(1 - share), Height: width(share),
			Title: short(fmt.Sprintf("%s of %s, %s in %s: %.4f USD per hour, %s of CPU, %s of memory", count(len(g.nodes), "node"), g.InstanceType, capacity(g.NodeUse),
				g.Zone, g.Price, percent(shareOf(g.CPU)), percent(shareOf(g.Memory)))),
		})
		x += g.Price
	}
	out.Label = fmt.Sprintf("%s: %s at %.4f USD per hour in %s of type, zone and capacity. Pods request %s of what is paid, by CPU or memory, whichever is more.",
		title, count(len(nodes), "node"), sum.Price, count(len(all), "combination"), percent(filled/sum.Price))
	return out
}
