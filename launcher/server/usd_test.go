package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// pricedTypes are offered on demand in two zones, and as spot in one for less.
func pricedTypes() []catalog.InstanceType {
	var out []catalog.InstanceType
	for _, cpus := range []int{2, 4, 8} {
		price := 0.05 * float64(cpus)
		out = append(out, catalog.InstanceType{
			Name: fmt.Sprintf("m7g.%d", cpus), Capacity: resources(fmt.Sprint(cpus), "8Gi"), Allocatable: resources(fmt.Sprint(cpus), "8Gi"),
			Labels: map[string]string{"karpenter.k8s.aws/instance-cpu": fmt.Sprint(cpus)},
			Offerings: []catalog.Offering{
				{Zone: "us-east-1a", CapacityType: "on-demand", Price: price, Available: true},
				{Zone: "us-east-1b", CapacityType: "on-demand", Price: 1.1 * price, Available: true},
				{Zone: "us-east-1a", CapacityType: "spot", Price: price / 4, Available: true},
			},
		})
	}
	return out
}

func in(key string, minValues int32, values ...string) *api.Requirement {
	return &api.Requirement{Key: key, Operator: "In", Values: values, MinValues: minValues}
}

// pricedClaim expects a spot node of two CPUs, and allows all that pricedTypes has.
func pricedClaim(name string, more ...*api.Requirement) *api.Claim {
	out := &api.Claim{
		Name: name, NodePool: "default", Requests: map[string]string{"cpu": "1"},
		Expected: &api.Expected{InstanceType: "m7g.2", Zone: "us-east-1a", CapacityType: "spot", Price: 0.025},
		Requirements: append([]*api.Requirement{
			in(corev1.LabelTopologyZone, 0, "us-east-1a", "us-east-1b"), in(karpv1.CapacityTypeLabelKey, 0, "on-demand", "spot"),
		}, more...),
	}
	for _, t := range pricedTypes() {
		out.InstanceTypes = append(out.InstanceTypes, t.Name)
	}
	return out
}

// A claim is admitted with every offering for which the limit in USD has room, else with those that cost no more than the expected one, and refused
// where that costs too much. A choice that minValues asks for is not taken from a claim: it is refused.
func TestLimitInUSD(t *testing.T) {
	w := newWorldOver(t, func(c client.WithWatch) client.Client { return c }, pricedTypes(), ready("default", karpv1.Limits{catalog.LimitUSD: resource.MustParse("0.5")})...)
	send := func(c *api.Claim) *api.Result {
		t.Helper()
		answer, err := w.client.Launch(t.Context(), &api.LaunchRequest{Claims: []*api.Claim{c}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetClaims()[0]
	}
	allows := func(name string, types, zones, kinds string) {
		t.Helper()
		claim := &karpv1.NodeClaim{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: name}, claim); err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, r := range claim.Spec.Requirements {
			values[r.Key] = strings.Join(r.Values, " ")
		}
		if got := strings.Join(record.InstanceTypes(claim), " "); got != types || values[corev1.LabelTopologyZone] != zones || values[karpv1.CapacityTypeLabelKey] != kinds {
			t.Errorf("%s may be %s in %s as %s, want %s in %s as %s", name, got, values[corev1.LabelTopologyZone], values[karpv1.CapacityTypeLabelKey], types, zones, kinds)
		}
	}
	if r := send(pricedClaim("wide")); r.GetReason() != "" {
		t.Fatalf("refused: %s", r.GetMessage())
	}
	allows("wide", "m7g.2 m7g.4 m7g.8", "us-east-1a us-east-1b", "on-demand spot") // 0.44 at most.
	if r := send(pricedClaim("choice", in("karpenter.k8s.aws/instance-cpu", 2, "2", "4", "8"))); r.GetReason() != "LimitsExceeded" || !strings.Contains(r.GetMessage(), "minValues") {
		t.Errorf("a claim that needs two sizes: %s: %s", r.GetReason(), r.GetMessage())
	}
	for _, name := range []string{"narrow", "last"} { // 0.025 each.
		if r := send(pricedClaim(name)); r.GetReason() != "" {
			t.Fatalf("%s is refused: %s", name, r.GetMessage())
		}
		allows(name, "m7g.2", "us-east-1a", "spot")
	}
	const want = "claim over: NodePool default: spec.limits.slipway.dev/usd-per-hour: 0.5150 would be more than 0.5000"
	if r := send(pricedClaim("over")); r.GetReason() != "LimitsExceeded" || r.GetMessage() != want {
		t.Errorf("%s: %s, want %s", r.GetReason(), r.GetMessage(), want)
	}
}

// usdLimit holds every write of a NodeClaim against a limit in USD, as if EC2 always chose the most expensive offering that each allows.
type usdLimit struct {
	*lagging
	prices catalog.Prices
	limit  int64

	mu   sync.Mutex
	most int64
}

// Create sums up what NodeClaims may cost.
func (l *usdLimit) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := l.WithWatch.Create(ctx, o, opts...); err != nil {
		return err
	}
	var list karpv1.NodeClaimList
	if err := l.WithWatch.List(ctx, &list); err != nil {
		l.t.Error(err)
	}
	sum := int64(0)
	for i := range list.Items {
		reqs, err := record.Requirements(&list.Items[i])
		if err != nil {
			l.t.Error(err)
		}
		sum += l.prices.Most(record.InstanceTypes(&list.Items[i]), reqs)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most = max(l.most, sum); sum > l.limit {
		l.t.Errorf("%d NodeClaims may cost %d millionths of a USD per hour, more than %d", len(list.Items), sum, l.limit)
	}
	return nil
}

// The limit in USD is never exceeded, whatever EC2 chooses, with concurrent and repeated requests, and however far the cache lags.
func TestLimitInUSDIsNeverExceeded(t *testing.T) {
	all := pricedTypes()
	l := &usdLimit{lagging: &lagging{t: t}, limit: 3_000_000, prices: catalog.Prices{Types: map[string]catalog.InstanceType{}}}
	for _, it := range all {
		l.prices.Types[it.Name] = it
	}
	w := newWorldOver(t, func(c client.WithWatch) client.Client { l.WithWatch = c; return l }, all, ready("default", karpv1.Limits{catalog.LimitUSD: resource.MustParse("3")})...)
	stop := make(chan struct{})
	var background, requests sync.WaitGroup
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
				l.catchUp(t.Context())
			}
		}
	})
	for worker := range 6 {
		requests.Go(func() {
			for n := range 6 {
				request := &api.LaunchRequest{}
				for i := range 1 + rand.IntN(4) {
					request.Claims = append(request.Claims, pricedClaim(fmt.Sprintf("default-%d-%d-%d", worker, n, i)))
				}
				for range 1 + rand.IntN(2) { // Sent again, as after a lost answer.
					if _, err := w.client.Launch(t.Context(), request); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	requests.Wait()
	close(stop)
	background.Wait()
	if l.most < l.limit*9/10 {
		t.Errorf("at most %d of %d millionths of a USD per hour were used", l.most, l.limit)
	}
}
