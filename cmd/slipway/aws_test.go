package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// With --aws, types, zones and prices are EC2's: pods go to spot instances, which no file gave a price.
func TestSimulateWithEC2sPrices(t *testing.T) {
	server, err := aws.New(aws.Config{ClusterName: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL(), "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
	} {
		t.Setenv(name, value)
	}
	out, notes, err := slipway(t, objectsYAML, "simulate", "-f", "-", "--aws", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Nodes []struct {
			CapacityType string
			Price        float64
		}
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Nodes) != 1 || answer.Nodes[0].CapacityType != "spot" || answer.Nodes[0].Price <= 0 {
		t.Errorf("want one spot node with a price, got %+v", answer.Nodes)
	}
	if !strings.Contains(notes, "those of EC2 now") || strings.Contains(notes, "built-in") {
		t.Errorf("the notes say\n%s", notes)
	}
	if _, _, err := slipway(t, objectsYAML, "simulate", "-f", "-", "--aws", "--zones", "zones.json"); err == nil || !strings.Contains(err.Error(), "zones.json") {
		t.Errorf("--aws beside --zones: %v", err)
	}
	zones := write(t, "zones.json", `["us-east-1a"]`)
	if _, _, err := slipway(t, objectsYAML, "simulate", "-f", "-", "--aws", "--zones", zones); err == nil || !strings.Contains(err.Error(), "--aws") {
		t.Errorf("--aws beside --zones: %v", err)
	}
}

// A pod is named as kubectl names it, or by the command's own words.
func TestExplainTakesTypeAndName(t *testing.T) {
	for _, arg := range [][]string{{"pod/web"}, {"pods/default/web"}, {"pod", "default/web"}} {
		out, _, err := slipway(t, objectsYAML, append([]string{"explain", "-f", "-"}, arg...)...)
		if err != nil || !strings.Contains(out, "Pod default/web: on a new node") {
			t.Errorf("%v: %v\n%s", arg, err, out)
		}
	}
	if _, _, err := slipway(t, objectsYAML, "explain", "-f", "-", "web"); err == nil || !strings.Contains(err.Error(), "give pod NAMESPACE/NAME") {
		t.Errorf("a name alone: %v", err)
	}
}
