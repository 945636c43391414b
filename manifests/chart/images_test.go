package chart_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/manifests/chart"
)

const published = `registry.example/slipway/slipway-scheduler:1.2.3@sha256:1111111111111111111111111111111111111111111111111111111111111111
registry.example/slipway/slipway-launcher:1.2.3@sha256:2222222222222222222222222222222222222222222222222222222222222222
`

// A packed chart with digests deploys these images and no others, whatever a tag points to later. The rest of its values is as it was.
func TestPackedChartHasDigests(t *testing.T) {
	images, err := chart.ParseImages([]byte(published))
	if err != nil {
		t.Fatal(err)
	}
	path, err := chart.Pack(folder, "1.2.3", t.TempDir(), images)
	if err != nil {
		t.Fatal(err)
	}
	documents, err := chart.Release{Chart: path, Name: "slipway", Namespace: "kube-system", Values: minimal()}.Render()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, document := range documents {
		for line := range strings.Lines(string(document)) {
			if image, found := strings.CutPrefix(strings.TrimSpace(line), "image: "); found {
				got = append(got, image)
			}
		}
	}
	want := strings.Fields(strings.ReplaceAll(published, ":1.2.3@", "@"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	values, err := os.ReadFile(folder + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(values), "digest: \"\"\n") != 2 {
		t.Error("the chart's own values are changed")
	}
}

// A digest that is missing, or that the values have no place for, is an error: a chart would be half pinned.
func TestEachImageHasADigest(t *testing.T) {
	images, err := chart.ParseImages([]byte(published))
	if err != nil {
		t.Fatal(err)
	}
	other := append(images[:2:2], chart.Image{Repository: "registry.example/other", Digest: images[0].Digest})
	for name, given := range map[string][]chart.Image{"one image": images[:1], "an unknown image": other} {
		if _, err := chart.Pack(folder, "1.2.3", t.TempDir(), given); err == nil || !strings.Contains(err.Error(), "pinning images of chart slipway") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, line := range []string{"registry.example/slipway-launcher:1.2.3", "slipway-launcher@sha256:12"} {
		if _, err := chart.ParseImages([]byte(line)); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
