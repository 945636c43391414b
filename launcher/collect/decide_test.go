package collect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/collect"
)

func now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// TestDecide runs the files of testdata. Each has the command collect, with the argument beside where a Karpenter is alive, and
// shifted=ZONE where a zonal shift is away from a zone or unknown where it is not known yet, and lines of
//
//	instance ID STATE age=D [launch=L] [claim=NAME] [zone=ZONE] [as=CAPACITY-TYPE]
//	claim NAME age=D [instance=ID] [launch=L] [deleting=D] [unguarded] [node] [ready] [foreign] [zone=ZONE] [as=CAPACITY-TYPE]
func TestDecide(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			s := collect.State{Now: now(), Nodes: map[string]bool{}, Foreign: map[string]bool{}, Beside: d.HasArg("beside"), ShiftsUnknown: d.HasArg("unknown")}
			if d.HasArg("shifted") {
				zone := ""
				d.ScanArgs(t, "shifted", &zone)
				s.Shifted = map[string]bool{zone: true}
			}
			for line := range strings.Lines(d.Input) {
				fields := strings.Fields(line)
				switch fields[0] {
				case "instance":
					s.Instances = append(s.Instances, parseInstance(t, fields[1:]))
				case "claim":
					s.Foreign[fields[1]] = slices.Contains(fields, "foreign")
					fields = slices.DeleteFunc(fields, func(f string) bool { return f == "foreign" })
					s.Claims = append(s.Claims, parseClaim(t, fields[1:], s.Nodes))
				default:
					d.Fatalf(t, "unknown line %s", line)
				}
			}
			var b strings.Builder
			garbage := collect.Decide(s)
			for _, i := range garbage.Instances {
				fmt.Fprintf(&b, "terminate %s\n", i.ID)
			}
			for _, c := range garbage.Claims {
				fmt.Fprintf(&b, "end %s\n", c.Name)
			}
			for _, u := range garbage.Untagged {
				fmt.Fprintf(&b, "tag %s as %s\n", u.InstanceID, u.Tags["karpenter.sh/nodeclaim"])
			}
			for _, o := range garbage.Outlived {
				fmt.Fprintf(&b, "%s of %s runs as %s\n", o.Instance.ID, o.Claim.Name, o.Instance.CapacityType)
			}
			if b.Len() == 0 {
				return "nothing\n"
			}
			return b.String()
		})
	})
}

func parseInstance(t *testing.T, fields []string) cloud.Instance {
	t.Helper()
	i := cloud.Instance{ID: fields[0], State: cloud.InstanceState(fields[1]), Tags: map[string]string{}}
	for _, f := range fields[2:] {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "age":
			i.LaunchTime = now().Add(-parse(t, value))
		case "launch":
			i.Tags[catalog.LaunchAnnotation] = value
		case "claim":
			i.Tags["karpenter.sh/nodeclaim"] = value
		case "zone":
			i.ZoneID = value
		case "as":
			i.CapacityType = value
		default:
			t.Fatalf("unknown property %s", f)
		}
	}
	return i
}

func parseClaim(t *testing.T, fields []string, ready map[string]bool) karpv1.NodeClaim {
	t.Helper()
	c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: fields[0], Annotations: map[string]string{}, Labels: map[string]string{}, Finalizers: []string{metav1.FinalizerDeleteDependents, karpv1.TerminationFinalizer},
	}}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "age":
			c.CreationTimestamp = metav1.NewTime(now().Add(-parse(t, value)))
		case "instance":
			c.Status.ProviderID = "aws:///us-east-1a/" + value
		case "launch":
			c.Annotations[catalog.LaunchAnnotation] = value
		case "deleting":
			c.DeletionTimestamp = &metav1.Time{Time: now().Add(-parse(t, value))}
		case "unguarded":
			c.Finalizers = []string{metav1.FinalizerDeleteDependents}
		case "node":
			ready[c.Status.ProviderID] = false
		case "ready":
			ready[c.Status.ProviderID] = true
		case "zone":
			c.Labels[awsv1.LabelTopologyZoneID] = value
		case "as":
			c.Labels[karpv1.CapacityTypeLabelKey] = value
		default:
			t.Fatalf("unknown property %s", f)
		}
	}
	return c
}

func parse(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
