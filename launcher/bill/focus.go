package bill

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"
)

// focusColumns returns the columns of FOCUS 1.2 that are mandatory (FinOps Open Cost and Usage Specification, "Columns", feature level), then
// those of its conditional ones that apply, then slipway's own, whose names begin with x_ as the specification asks for.
func focusColumns() []string {
	return []string{
		"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass",
		"ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity",
		"PricingUnit", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName",
		"CommitmentDiscountId", "CommitmentDiscountStatus", "ConsumedQuantity", "ConsumedUnit", "Tags", "x_IdleShare", "x_LostShare", "x_Namespace", "x_NodePool", "x_WorkloadKind",
		"x_WorkloadName",
	}
}

// charge is a FOCUS row.
type charge struct {
	description, commitment string
	parts                   Parts
	unused, nodeHours       float64
	// idle and lost are a workload's shares of other rows: no part of its cost.
	idle, lost             float64
	pool, namespace        string
	workloadKind, workload string
	tags                   map[string]string
	start                  time.Time
}

// writeFOCUS writes the records as FOCUS 1.2: a row for each workload and hour, and for each hour and NodePool what is idle and what was lost to
// interruptions, and for each hour and commitment what nothing used. The sum of EffectiveCost is the bill.
func writeFOCUS(w io.Writer, records []Record) error {
	out := csv.NewWriter(w)
	if err := out.Write(focusColumns()); err != nil {
		return err
	}
	records = slices.SortedFunc(slices.Values(records), func(a, b Record) int { return int(a.Day.Date - b.Day.Date) })
	for _, r := range records {
		for n, h := range r.Day.Hours {
			if h == nil {
				continue
			}
			for _, c := range h.charges(r.Day.Date.Time().Add(time.Duration(n) * time.Hour)) {
				if err := out.Write(c.row(r.Cluster)); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// charges returns the rows of an hour in their order.
func (h *Hour) charges(start time.Time) []charge {
	var out []charge
	keys := make([]Key, 0, len(h.Rows))
	for k := range h.Rows {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	for _, k := range keys {
		r := h.Rows[k]
		out = append(out, charge{
			description: "Requested share of nodes", parts: r.Parts, nodeHours: r.NodeHours, namespace: k.Namespace, workloadKind: k.Kind, workload: k.Name,
			tags: k.LabelMap(), start: start, idle: r.Idle, lost: r.Lost,
		})
	}
	for _, name := range sortedNames(h.Pools) {
		p := h.Pools[name]
		idle := max(p.NodeHours-p.RequestedHours-p.InterruptedHours, 0)
		out = append(out, charge{description: "Idle share of nodes", parts: p.Idle, pool: name, nodeHours: idle, start: start})
		if p.Interrupted.Total() != 0 {
			out = append(out, charge{description: "Nodes after their interruption", parts: p.Interrupted, pool: name, nodeHours: p.InterruptedHours, start: start})
		}
	}
	for _, id := range sortedNames(h.Unused) {
		out = append(out, charge{description: "Unused commitment", commitment: id, unused: h.Unused[id], nodeHours: 1, start: start})
	}
	out = append(out, charge{description: "Fee of the region for dedicated instances", parts: Parts{Instance: h.Fee}, nodeHours: 1, start: start})
	return slices.DeleteFunc(out, func(c charge) bool { return c.parts.Total() == 0 && c.unused == 0 && c.idle == 0 && c.lost == 0 })
}

// row returns the values of the columns. What a commitment pays for is billed with it: it is effective cost, and no billed cost. The list
// and contracted costs are not known: they are the effective ones.
func (c charge) row(cluster string) []string {
	usd := func(x float64) string { return strconv.FormatFloat(x, 'f', 9, 64) }
	effective := c.parts.Total() + c.unused
	month := time.Date(c.start.Year(), c.start.Month(), 1, 0, 0, 0, 0, time.UTC)
	status := ""
	if c.commitment != "" {
		status = "Unused"
	}
	tags := "{}"
	if text, err := json.Marshal(c.tags); err == nil && len(c.tags) > 0 {
		tags = string(text)
	}
	idle, lost := "", ""
	if c.namespace != "" { // The other workloads of a namespace have no name.
		idle, lost = usd(c.idle), usd(c.lost)
	}
	hours := strconv.FormatFloat(c.nodeHours, 'f', 9, 64)
	consumed, unit := hours, "Hours"
	if c.commitment != "" {
		consumed, unit = "", ""
	}
	return []string{
		usd(effective - c.parts.Commitments - c.unused), cluster, cluster, "USD", month.AddDate(0, 1, 0).Format(time.RFC3339), month.Format(time.RFC3339), "Usage", "",
		c.description, c.start.Add(time.Hour).Format(time.RFC3339), c.start.Format(time.RFC3339), usd(effective), usd(effective), "AWS", usd(effective), hours,
		"Hours", "AWS", "AWS", "Compute", "Amazon Elastic Compute Cloud",
		c.commitment, status, consumed, unit, tags, idle, lost, c.namespace, c.pool, c.workloadKind, c.workload,
	}
}
