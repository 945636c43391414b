package overlay_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
)

// The commands of a scenario, each with an example:
//
//	pool name=batch class=default labels=(team=data,tier=low)
//	type class=default name=m6i.large spot=0.04 on-demand=0.1 reserved=0.0001 volumes=0.002
//	type name=m6i.large reserved=0.0001 interruptible    a reservation that its owner lends
//	overlay              a NodeOverlay as YAML
//	evaluate             verdicts, then what differs from the catalog, by NodePool
func TestEvaluate(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		in := overlay.Input{Types: map[string][]catalog.InstanceType{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			switch d.Cmd {
			case "pool":
				in.Pools = append(in.Pools, scenarioPool(t, d))
			case "type":
				class := "default"
				if d.HasArg("class") {
					d.ScanArgs(t, "class", &class)
				}
				in.Types[class] = append(in.Types[class], scenarioType(t, d))
			case "overlay":
				o := &v1alpha1.NodeOverlay{}
				if err := yaml.UnmarshalStrict([]byte(d.Input), o); err != nil {
					return err.Error()
				}
				in.Overlays = append(in.Overlays, o)
			case "forget":
				in.Overlays = nil
			case "evaluate":
				before := fmt.Sprintf("%+v", in.Types)
				out := result(in, overlay.Evaluate(t.Context(), in))
				if after := fmt.Sprintf("%+v", in.Types); after != before {
					t.Fatalf("the input was changed: %s\nbefore: %s", after, before)
				}
				return out
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

func scenarioPool(t *testing.T, d *datadriven.TestData) overlay.Pool {
	t.Helper()
	out := overlay.Pool{NodeClass: "default"}
	d.ScanArgs(t, "name", &out.Name)
	if d.HasArg("class") {
		d.ScanArgs(t, "class", &out.NodeClass)
	}
	out.Labels = map[string]string{karpv1.NodePoolLabelKey: out.Name}
	for _, arg := range d.CmdArgs {
		if arg.Key == "labels" {
			for _, pair := range arg.Vals {
				key, value, _ := strings.Cut(pair, "=")
				out.Labels[key] = value
			}
		}
	}
	return out
}

func scenarioType(t *testing.T, d *datadriven.TestData) catalog.InstanceType {
	t.Helper()
	out := catalog.InstanceType{Capacity: list("cpu", "2", "memory", "8Gi"), Allocatable: list("cpu", "1930m", "memory", "7Gi")}
	d.ScanArgs(t, "name", &out.Name)
	out.Labels = map[string]string{
		corev1.LabelInstanceTypeStable: out.Name, corev1.LabelArchStable: "amd64", catalog.LabelInstanceFamily: strings.Split(out.Name, ".")[0],
		catalog.LabelInstanceCPU: "2",
	}
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) != 1 {
			continue
		}
		usd, err := strconv.ParseFloat(arg.Vals[0], 64)
		if err != nil {
			continue
		}
		if arg.Key == "volumes" {
			out.Charges.Volumes = usd
			continue
		}
		for _, zone := range []string{"us-east-1a", "us-east-1b"} {
			o := catalog.Offering{Zone: zone, CapacityType: arg.Key, Price: usd, Available: true}
			if arg.Key == "reserved" {
				o.ReservationID, o.ReservationType, o.Interruptible = "cr-1", "default", d.HasArg("interruptible")
			}
			out.Offerings = append(out.Offerings, o)
		}
	}
	for i := range out.Offerings {
		out.Offerings[i].Price += out.Charges.Fixed()
	}
	return out
}

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func result(in overlay.Input, r overlay.Result) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Verdicts)) {
		v := r.Verdicts[name]
		if v == (overlay.Verdict{}) {
			fmt.Fprintf(&b, "%s: applied\n", name)
			continue
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", name, cmp.Or(v.Reason, "applied"), v.Message)
	}
	for _, p := range in.Pools {
		key, types, ok := r.Of(p.Name)
		if !ok {
			fmt.Fprintf(&b, "pool %s: as AWS has it\n", p.Name)
			continue
		}
		fmt.Fprintf(&b, "pool %s: list %s\n", p.Name, key)
		for i := range types {
			describe(&b, &types[i], &in.Types[p.NodeClass][i])
		}
	}
	return b.String()
}

// describe prints what differs.
func describe(b *strings.Builder, is, was *catalog.InstanceType) {
	for i, o := range is.Offerings {
		if o != was.Offerings[i] {
			fmt.Fprintf(b, "  %s %s %s: %.7g -> %.7g\n", is.Name, o.CapacityType, o.Zone, was.Offerings[i].Price, o.Price)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is.Allocatable)) {
		q, before := is.Allocatable[name], was.Allocatable[name]
		if q.Cmp(before) != 0 {
			fmt.Fprintf(b, "  %s allocatable %s: %s -> %s (capacity %s)\n", is.Name, name, before.String(), q.String(), text(is.Capacity[name]))
		}
	}
}

func text(q resource.Quantity) string { return q.String() }

// BenchmarkEvaluate is a large account: 1000 instance types in three zones, 20 NodePools and 50 NodeOverlays.
func BenchmarkEvaluate(b *testing.B) {
	in := overlay.Input{Types: map[string][]catalog.InstanceType{}}
	for i := range 1000 {
		t := catalog.InstanceType{Name: "t" + strconv.Itoa(i) + ".large"}
		t.Labels = map[string]string{corev1.LabelInstanceTypeStable: t.Name, catalog.LabelInstanceFamily: "t" + strconv.Itoa(i)}
		for _, zone := range []string{"a", "b", "c"} {
			for _, kind := range []string{"on-demand", "spot"} {
				t.Offerings = append(t.Offerings, catalog.Offering{Zone: zone, CapacityType: kind, Price: 1})
			}
		}
		in.Types["default"] = append(in.Types["default"], t)
	}
	for i := range 20 {
		name := "pool-" + strconv.Itoa(i)
		in.Pools = append(in.Pools, overlay.Pool{Name: name, NodeClass: "default", Labels: map[string]string{karpv1.NodePoolLabelKey: name}})
	}
	for i := range 50 {
		o := &v1alpha1.NodeOverlay{}
		o.Name = "overlay-" + strconv.Itoa(i)
		o.Spec.PriceAdjustment, o.Spec.Weight = new("-10%"), new(int32(i+1))
		o.Spec.Requirements = []v1alpha1.NodeSelectorRequirement{
			{Key: catalog.LabelInstanceFamily, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"t" + strconv.Itoa(i)}},
			{Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"pool-" + strconv.Itoa(i)}},
		}
		in.Overlays = append(in.Overlays, o)
	}
	b.ReportAllocs()
	for b.Loop() {
		overlay.Evaluate(b.Context(), in)
	}
}
