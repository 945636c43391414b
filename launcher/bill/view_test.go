package bill

import (
	"bytes"
	"encoding/csv"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write the golden files from the output")
	os.Exit(m.Run())
}

// shop is a record of two days: two NodePools, an interruption, a burstable node, a Savings Plan that is not used up, and a pause.
func shop() []Record {
	start := time.Date(2026, 11, 22, 23, 0, 0, 0, time.UTC)
	web, db, job := pod("shop", "web", 500, 2<<30, start), pod("shop", "db", 500, 2<<30, start), pod("batch", "job", 2000, 1<<30, start)
	web.Key.Labels = LabelPrefix + "name=web," + LabelPrefix + "part-of=shop"
	db.Key.Labels, db.Key.Kind = LabelPrefix+"name=db,"+LabelPrefix+"part-of=shop", "StatefulSet"
	steady := node("steady", start, web, db)
	steady.PerHour = Parts{Instance: 0.05, Volumes: 0.002, PublicIPv4: 0.005, Declared: 0.02, Commitments: 0.03}
	spot := node("spot", start, job)
	spot.NodePool, spot.PerHour, spot.Burst = "spot", Parts{Instance: 0.02, Volumes: 0.002}, catalog.Charges{BaselineCPU: 400, SurplusCPU: 0.05}
	l := &Ledger{}
	for at := start; at.Before(start.Add(2 * time.Hour)); at = at.Add(time.Minute) {
		o := Observation{At: at, Nodes: []Node{steady}, Unused: map[string]float64{"sp-1": 0.01}}
		if at.Sub(start) < 90*time.Minute {
			o.Nodes = append(o.Nodes, spot)
		}
		if at.Sub(start) == 80*time.Minute {
			spot.Interrupted = at.Add(30 * time.Second)
		}
		l.Observe(o)
	}
	l.Observe(Observation{At: start.Add(3 * time.Hour), Nodes: []Node{steady}})
	var out []Record
	for _, d := range l.Days {
		out = append(out, Record{Cluster: "prod", Start: l.Start, Through: l.Through, Day: d})
	}
	return out
}

// The outputs are those of testdata; -rewrite writes them.
func TestOutputs(t *testing.T) {
	for file, tc := range map[string]struct {
		by     By
		format Format
	}{
		"nodepool.txt": {ByNodePool, FormatTable}, "namespace.txt": {ByNamespace, FormatTable}, "workload.txt": {ByWorkload, FormatTable},
		"part-of.txt": {ByLabel + LabelPrefix + "part-of", FormatTable}, "namespace.json": {ByNamespace, FormatJSON}, "nodepool.json": {ByNodePool, FormatJSON},
		"focus.csv": {ByNodePool, FormatFOCUS},
	} {
		out := bytes.Buffer{}
		if err := Write(&out, shop(), tc.by, tc.format); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", file)
		if flag.Lookup("rewrite").Value.String() == "true" {
			if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// However a bill is divided, its lines, what belongs to none of them, and FOCUS's rows add up to the same sum.
func TestSumsAreEqual(t *testing.T) {
	records := shop()
	total := New(records, ByNodePool).Total
	for _, by := range []By{ByNamespace, ByWorkload, ByLabel + LabelPrefix + "name"} {
		b, sum := New(records, by), 0.0
		for _, l := range b.Lines {
			sum += l.Total
		}
		if sum += b.Idle.Total() + b.Interrupted.Total() + b.Unused["sp-1"]; math.Abs(sum-total) > 1e-7 || b.Total != total {
			t.Errorf("by %s: %v, total %v, want %v", by, sum, b.Total, total)
		}
	}
	out := bytes.Buffer{}
	if err := Write(&out, records, ByNodePool, FormatFOCUS); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at, sum := slices.Index(rows[0], "EffectiveCost"), 0.0
	for _, row := range rows[1:] {
		usd, err := strconv.ParseFloat(row[at], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += usd
	}
	if math.Abs(sum-total) > 1e-6 {
		t.Errorf("FOCUS: %v, want %v", sum, total)
	}
	for column, want := range map[string]float64{"x_IdleShare": shares(records, func(r *Row) float64 { return r.Idle }), "x_LostShare": shares(records, func(r *Row) float64 { return r.Lost })} {
		at, sum := slices.Index(rows[0], column), 0.0
		for _, row := range rows[1:] {
			usd, err := strconv.ParseFloat(row[at], 64)
			if workload := row[slices.Index(rows[0], "x_WorkloadName")] != ""; workload != (err == nil) {
				t.Errorf("%s is %q in %q", column, row[at], row)
			}
			sum += usd
		}
		if math.Abs(sum-want) > 1e-6 || want == 0 {
			t.Errorf("%s: %v, want %v, not 0", column, sum, want)
		}
	}
}

// The shares of the other workloads of a namespace, which have no name, and those of a workload that is charged nothing in an hour are in FOCUS's rows.
func TestSharesWithoutANameOrACharge(t *testing.T) {
	day := &Day{Date: DateOf(noon())}
	h := day.hour(12)
	h.row(Key{Namespace: "many"}).Idle, h.row(Key{Namespace: "many"}).Lost = 0.25, 0.5
	h.row(Key{Namespace: "shop", Kind: "Deployment", Name: "web"}).Lost = 0.125
	h.row(Key{Namespace: "shop", Kind: "Deployment", Name: "none"})
	h.pool("default").Idle, h.pool("default").Interrupted = Parts{Instance: 0.25}, Parts{Instance: 0.625}
	out := bytes.Buffer{}
	if err := Write(&out, []Record{{Cluster: "prod", Start: noon(), Through: noon(), Day: day}}, ByNodePool, FormatFOCUS); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range rows[1:] {
		text := ""
		for _, column := range []string{"ChargeDescription", "EffectiveCost", "x_IdleShare", "x_LostShare", "x_Namespace", "x_WorkloadName"} {
			text += row[slices.Index(rows[0], column)] + "|"
		}
		got = append(got, text)
	}
	want := []string{
		"Requested share of nodes|0.000000000|0.250000000|0.500000000|many||",
		"Requested share of nodes|0.000000000|0.000000000|0.125000000|shop|web|",
		"Idle share of nodes|0.250000000|||||",
		"Nodes after their interruption|0.625000000|||||",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// shares adds up a share of all workloads.
func shares(records []Record, of func(*Row) float64) float64 {
	sum := 0.0
	for _, r := range records {
		for _, h := range r.Day.Hours {
			if h == nil {
				continue
			}
			for _, row := range h.Rows {
				sum += of(row)
			}
		}
	}
	return sum
}

// The mandatory columns are those of the specification, and each row has a value in those that may not be empty.
func TestFOCUSIsComplete(t *testing.T) {
	mandatory := strings.Fields(`BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory ChargeClass
ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost PricingQuantity PricingUnit ProviderName PublisherName
ServiceCategory ServiceName`)
	out := bytes.Buffer{}
	if err := Write(&out, shop(), ByNodePool, FormatFOCUS); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range mandatory {
		at := slices.Index(rows[0], name)
		if at < 0 {
			t.Errorf("there is no column %s", name)
			continue
		}
		for _, row := range rows[1:] {
			if row[at] == "" && name != "ChargeClass" { // It is empty but for corrections.
				t.Errorf("%s is empty in %q", name, row)
			}
		}
	}
}

func TestParseBy(t *testing.T) {
	for text, ok := range map[string]bool{
		"nodepool": true, "namespace": true, "workload": true, "label=app.kubernetes.io/name": true, "label=team": false, "label": false, "": false, "node": false,
	} {
		if _, err := ParseBy(text); (err == nil) != ok {
			t.Errorf("%q: error %v", text, err)
		}
	}
	if err := Write(&bytes.Buffer{}, shop(), ByNodePool, "yaml"); err == nil || !strings.Contains(err.Error(), "--output yaml") {
		t.Errorf("error %v", err)
	}
	if err := Write(&bytes.Buffer{}, nil, ByNodePool, FormatTable); err == nil {
		t.Error("no error without a record")
	}
}
