package report_test

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
	"github.com/slipway-k8s/slipway/plugin/simulate/report"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write the pages into testdata")
	os.Exit(m.Run())
}

// read returns the objects of a text and the small market of the simulation's tests.
func read(t *testing.T, text string) (*input.Objects, *market.Market) {
	t.Helper()
	var files market.Files
	for name, into := range map[string]*[]byte{"instance-types": &files.InstanceTypes, "prices": &files.Prices, "zones": &files.Zones} {
		var err error
		if *into, err = os.ReadFile("../testdata/market/" + name + ".json"); err != nil {
			t.Fatal(err)
		}
	}
	m, err := market.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	reader := input.NewReader()
	if err := reader.Read("objects.yaml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	return reader.Finish(), m
}

// planned is the page of a plan.
func planned(t *testing.T, text string) string {
	t.Helper()
	objects, m := read(t, text)
	outcome, err := simulate.Run(t.Context(), objects, m, simulate.Options{PreferenceShare: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.Plan(t.Context(), &out, outcome, objects.Ignored); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// consolidated is the page of a consolidation.
func consolidated(t *testing.T, text string) string {
	t.Helper()
	objects, m := read(t, text)
	saving, err := simulate.Consolidate(t.Context(), objects, m, simulate.ConsolidateOptions{
		Options:     simulate.Options{Now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)},
		Consolidate: consolidate.DefaultOptions(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.Saving(t.Context(), &out, saving, objects.Ignored); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The pages are those of testdata, but for the style sheet, twice.
func TestPages(t *testing.T) {
	style := regexp.MustCompile(`(?s)<style>.*</style>`)
	hash := regexp.MustCompile(`sha256-[^']*`)
	for name, page := range map[string]func() string{
		"plan.html":    func() string { return planned(t, file(t, "plan.yaml")) },
		"fleet.html":   func() string { return consolidated(t, file(t, "fleet.yaml")) },
		"empty.html":   func() string { return planned(t, "") },
		"nothing.html": func() string { return consolidated(t, "") },
	} {
		text := page()
		if text != page() {
			t.Errorf("%s: the same input gives another page", name)
		}
		wellFormed(t, name, text)
		got := hash.ReplaceAllString(style.ReplaceAllString(text, "<style></style>"), "sha256-HASH")
		if flag.Lookup("rewrite").Value.String() == "true" {
			if err := os.WriteFile("testdata/"+name, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(file(t, name), got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, diff)
		}
	}
}

// The pages have what the tables of the same inputs have.
func TestPagesSayWhatTablesSay(t *testing.T) {
	for page, wants := range map[string][]string{
		textOf(t, planned(t, file(t, "plan.yaml"))): {
			"Of 6 pending pods, 2 get a place on 1 new node, 1 on nodes that exist or are in flight, and 3 cannot be placed.", "2 of Deployment ml/train",
			"held by the scheduling gate example.com/wait", "NodePool team: does not tolerate the pool's taint", "Not counted: 1 node without a known price",
			"Not counted: 1 node of no NodePool", "2 of Deployment shop/web", "0.0022", "Lower bound of new nodes",
		},
		textOf(t, consolidated(t, file(t, "fleet.yaml"))): {
			"removed large1 default m5.2xlarge us-east-1a on-demand 1 1 of Deployment shop/web", "launched default-1", "removed empty", "nothing is evicted",
			"karpenter.sh/do-not-disrupt", "From scratch",
		},
	} {
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%q is missing in:\n%s", want, page)
			}
		}
	}
}

// textOf is the text that a reader sees, with single spaces.
func textOf(t *testing.T, page string) string {
	t.Helper()
	var words []string
	for n := range parse(t, page).Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" {
			words = append(words, strings.Fields(n.Data)...)
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), " :", ":")
}

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
