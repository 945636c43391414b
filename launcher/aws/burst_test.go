package aws_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// launchMany launches n instances in calls of size each, all at once, and waits until EC2 shows them. It returns what it launched.
func launchMany(tb testing.TB, c *aws.Cloud, class *awsv1.EC2NodeClass, n, size int) []string {
	tb.Helper()
	types, err := c.InstanceTypes(tb.Context(), class)
	if err != nil {
		tb.Fatal(err)
	}
	var options []cloud.Option
	for _, it := range types[:min(len(types), 60)] {
		for _, o := range it.Offerings {
			options = append(options, cloud.Option{
				InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, MaxPods: it.Capacity.Pods().Value(),
			})
		}
	}
	var wg sync.WaitGroup
	ids := make([][]string, n/size)
	for i := range ids {
		wg.Go(func() {
			in := cloud.LaunchInput{LaunchID: fmt.Sprintf("launch-%d", i), Class: class, Options: options}
			for k := range size {
				in.Claims = append(in.Claims, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("default-%d-%d", i, k), Labels: map[string]string{karpv1.NodePoolLabelKey: "default"},
				}})
			}
			ids[i] = untilLaunched(tb, c, in)
			for seen := 0; seen < len(ids[i]); time.Sleep(100 * time.Millisecond) {
				found, err := c.Instances(tb.Context(), cloud.Selector{IDs: ids[i]})
				if err != nil {
					tb.Error(err)
					return
				}
				seen = len(found)
			}
		})
	}
	wg.Wait()
	var all []string
	for _, list := range ids {
		all = append(all, list...)
	}
	return all
}

// untilLaunched repeats a call that EC2 throttles, under its own id, as the launcher does.
func untilLaunched(tb testing.TB, c *aws.Cloud, in cloud.LaunchInput) []string {
	tb.Helper()
	for {
		out, err := c.Launch(tb.Context(), in)
		if _, passes := cloud.AsLaunch(err); passes {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if err != nil || len(out.InstanceIDs) != len(in.Claims) {
			tb.Errorf("%d instances of %d, failures %v, %v", len(out.InstanceIDs), len(in.Claims), out.Failures, err)
		}
		return out.InstanceIDs
	}
}

// tally counts the EC2 calls of a launch, and returns them as text.
func tally(calls map[string]int) (total int, text string) {
	var parts []string
	for _, action := range []string{"CreateFleet", "CreateLaunchTemplate", "DescribeInstances", "CreateTags", "TerminateInstances"} {
		total += calls[action]
		parts = append(parts, fmt.Sprintf("%d %s", calls[action], action))
	}
	return total, strings.Join(parts, ", ")
}

// TestBurstOfLaunches launches 1,000 nodes of 20 shapes. The burst stays inside the request limits of every EC2 account and finishes:
// nothing is throttled, because the launcher waits for tokens and merges its requests.
func TestBurstOfLaunches(t *testing.T) {
	server := startAWS(t)
	c, class := newCloud(t, server), class()
	status, err := c.Resolve(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	class.Status = status
	ids := launchMany(t, c, class, 1000, 50)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			if i%20 == 0 { // A hundred at once would be the whole bucket of tags.
				if err := c.Tag(ctx, id, map[string]string{"karpenter.sh/nodeclaim": fmt.Sprintf("default-%d", i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// launcher/terminate gathers what it ends. Above nine tenths of EC2's thousand instances the launcher waits for its turn.
	if err := c.Terminate(ctx, ids[:800]); err != nil {
		t.Error(err)
	}
	calls, refused := map[string]int{}, map[string]int{}
	for _, call := range server.Calls() {
		calls[call.Action]++
		if call.Error == "RequestLimitExceeded" {
			refused[call.Action]++
		}
	}
	if len(ids) != 1000 || len(refused) > 0 {
		t.Errorf("%d instances; refused: %v", len(ids), refused)
	}
	if total, text := tally(calls); total > 250 || calls["TerminateInstances"] > 20 {
		t.Errorf("too many calls for 1,000 instances: %s", text)
	}
}

// BenchmarkLaunch1000 is the launch of 1,000 claims of 20 shapes at an endpoint with EC2's request limits.
func BenchmarkLaunch1000(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		server := startAWS(b)
		c, class := newCloud(b, server), class()
		status, err := c.Resolve(b.Context(), class)
		if err != nil {
			b.Fatal(err)
		}
		class.Status = status
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b.StartTimer()
		launchMany(b, c, class, 1000, 50)
		b.StopTimer()
		runtime.ReadMemStats(&after)
		calls := map[string]int{}
		for _, call := range server.Calls() {
			calls[call.Action]++
		}
		total, _ := tally(calls)
		b.ReportMetric(float64(total), "calls/op")
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/(1<<20), "MiB/op")
		b.StartTimer()
	}
}
