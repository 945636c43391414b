package billing

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// run runs the Recorder until what is done meanwhile has been done, and two minutes more.
func (w *world) run(meanwhile func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error)
	go func() { done <- w.recorder.Run(ctx) }()
	meanwhile()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	cancel()
	if err := <-done; err != nil {
		w.t.Error(err)
	}
}

// terminate lets EC2 terminate the instance of a NodeClaim after 125 seconds and deletes it three seconds later. It returns the NodeClaim as it was last.
func (w *world) terminate(claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	w.t.Helper()
	time.Sleep(125 * time.Second)
	last := claim.DeepCopy()
	last.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
	time.Sleep(3 * time.Second)
	if err := w.client.Delete(w.t.Context(), claim); err != nil {
		w.t.Fatal(err)
	}
	return last
}

// A NodeClaim that the cache lacks before its deletion is reported is in no observation, and in the one after that: it is charged once.
func TestDeletionIsReportedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		claim, n := node("n", "on-demand", time.Now())
		w.create(claim, n)
		w.run(func() {
			last := w.terminate(claim)
			time.Sleep(7 * time.Second)
			w.recorder.gone.add(last)
		})
		want := (0.096*125 + volumes*730/744*140) / 3600 // Its volume is charged until the observation at 140 s.
		if got := w.recorded().Total; math.Abs(got-want) > 1e-7 {
			t.Errorf("%.7f USD are recorded, want %.7f", got, want)
		}
	})
}

// What was deleted before an observation that fails is charged with the next one.
func TestNodesThatGoBeforeAFailure(t *testing.T) {
	for name, fails := range map[string]func(client.ObjectList) bool{
		"NodePools":  func(list client.ObjectList) bool { _, ok := list.(*karpv1.NodePoolList); return ok },
		"NodeClaims": func(list client.ObjectList) bool { _, ok := list.(*karpv1.NodeClaimList); return ok },
		"pods":       func(list client.ObjectList) bool { _, ok := list.(*corev1.PodList); return ok },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, failing := newWorld(t), atomic.Bool{}
				w.client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						if failing.Load() && fails(list) {
							return errors.New("the cache is not there")
						}
						return c.List(ctx, list, opts...)
					},
				})
				w.restart()
				claim, n := node("n", "on-demand", time.Now())
				w.create(claim, n)
				w.run(func() {
					w.recorder.gone.add(w.terminate(claim))
					failing.Store(true)
					time.Sleep(7 * time.Second)
					failing.Store(false)
				})
				want := (0.096*125 + volumes*730/744*140) / 3600 // Its volume is charged until the observation at 140 s.
				if got := w.recorded().Total; math.Abs(got-want) > 1e-7 {
					t.Errorf("%.7f USD are recorded, want %.7f", got, want)
				}
			})
		})
	}
}

// A node that goes between two observations is charged until it ended: as its NodeClaim said last, or until that was deleted. The instance of a spot node that
// EC2 took back within an hour costs nothing.
func TestNodesThatGo(t *testing.T) {
	for name, c := range map[string]struct {
		capacityType string
		terminated   bool
		reason       cloud.MessageKind
		usd, seconds float64
	}{
		"terminated":                   {"on-demand", true, "", 0.096, 125},
		"taken away":                   {"on-demand", false, "", 0.096, 128},
		"spot, terminated":             {"spot", true, cloud.SpotInterrupted, 0.03, 125},
		"spot, gone by itself":         {"spot", false, "", 0.03, 128},
		"spot, taken back":             {"spot", false, cloud.SpotInterrupted, 0, 128},
		"spot, terminated by a person": {"spot", false, cloud.InstanceTerminated, 0.03, 128},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				claim, n := node("n", c.capacityType, time.Now())
				w.create(claim, n)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- w.recorder.Run(ctx) }()
				time.Sleep(125 * time.Second)
				last := claim.DeepCopy()
				if c.reason != "" {
					last.DeletionTimestamp = &metav1.Time{Time: time.Now()}
					last.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, string(c.reason), "EC2's notice")
				}
				if c.terminated {
					last.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
				}
				time.Sleep(3 * time.Second)
				if err := w.client.Delete(t.Context(), claim); err != nil {
					t.Fatal(err)
				}
				w.recorder.gone.add(toolscache.DeletedFinalStateUnknown{Obj: last})
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				// Its volume is charged until the next observation, at 130 s.
				want := (c.usd*c.seconds + volumes*730/744*130) / 3600 // It is January, of 744 hours.
				if got := w.recorded().Total; math.Abs(got-want) > 1e-7 {
					t.Errorf("%.7f USD are recorded, want %.7f for %v s", got, want, c.seconds)
				}
			})
		})
	}
}

// A node in a capacity reservation costs what it would cost on demand, whatever its tenancy and operating system are. One in a Capacity Block is paid for.
func TestReservedCapacityOfTheBill(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	offered := func(onDemand float64) []catalog.InstanceType {
		return []catalog.InstanceType{{
			Name: "m6i.large", Charges: catalog.Charges{Volumes: volumes}, Offerings: []catalog.Offering{
				{Zone: "a", CapacityType: "on-demand", Price: onDemand + volumes}, {Zone: "a", CapacityType: "reserved", Price: 1e-8 + volumes},
			},
		}}
	}
	dedicated := map[string]string{catalog.LabelInstanceTenancy: catalog.TenancyDedicated}
	windows := map[string]string{corev1.LabelOSStable: string(corev1.Windows)}
	for name, tc := range map[string]struct {
		labels map[string]string
		class  string
		own    map[string]string
		want   float64
	}{
		"shared":           {nil, "default", nil, 0.096},
		"dedicated":        {dedicated, "default", map[string]string{"default": "default//dedicated"}, 0.102},
		"Windows":          {windows, "windows", nil, 0.188},
		"a Capacity Block": {map[string]string{catalog.LabelReservationType: catalog.ReservationTypeBlock}, "default", nil, 1e-8},
	} {
		t.Run(name, func(t *testing.T) {
			claim, n := node("n", "reserved", now.Add(-time.Hour))
			claim.Spec.NodeClassRef.Name = tc.class
			maps.Copy(claim.Labels, tc.labels)
			o := Look(Objects{
				Now: now, Claims: []*karpv1.NodeClaim{claim}, Nodes: []*corev1.Node{n}, Overlaid: tc.own,
				Types: map[string][]catalog.InstanceType{"default": offered(0.096), "default//dedicated": offered(0.102), "windows": offered(0.188)},
			})
			if got := o.Nodes[0].PerHour; math.Abs(got.Instance-tc.want) > 1e-9 {
				t.Errorf("%+v per hour, want %v for the instance", got, tc.want)
			}
		})
	}
}
