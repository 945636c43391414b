package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestShapes runs the scenarios of testdata/shapes. Command `shape` takes a YAML document with `facts` (EC2's description) and `class` (the
// EC2NodeClass's settings), and prints what the node offers to pods. With -rewrite it writes the answers again; then read the diff.
func TestShapes(t *testing.T) {
	datadriven.Walk(t, "testdata/shapes", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			var in struct {
				Facts Facts
				Class NodeClass
			}
			if err := yaml.UnmarshalStrict([]byte(d.Input), &in); err != nil {
				d.Fatalf(t, "%v", err)
			}
			shape, err := New(in.Facts, in.Class)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			if d.Cmd == "labels" {
				return printLabels(shape.Labels)
			}
			return printRoom(shape)
		})
	})
}

func printLabels(labels map[string]string) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&out, "%s: %s\n", key, labels[key])
	}
	return out.String()
}

func printRoom(shape InstanceType) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(shape.Capacity)) {
		capacity, allocatable := shape.Capacity[name], shape.Allocatable[name]
		fmt.Fprintf(&out, "%s: %s of %s\n", name, allocatable.String(), capacity.String())
	}
	return out.String()
}

// TestAllocatableWithinCapacity holds what New promises of every class: never more allocatable than capacity, never below zero.
func TestAllocatableWithinCapacity(t *testing.T) {
	one := int32(1)
	for _, class := range []NodeClass{
		{AMIFamily: FamilyAL2023},
		{AMIFamily: FamilyBottlerocket, MaxPods: &one},
		{AMIFamily: FamilyAL2023, SystemReserved: map[string]string{"memory": "100Gi", "cpu": "64"}},
		{AMIFamily: FamilyAL2023, EvictionHard: map[string]string{"memory.available": "99%", "nodefs.available": "1Ti"}},
	} {
		for _, mib := range []int64{512, 1024, 4096, 1 << 20} {
			shape, err := New(Facts{Name: "t", Arch: "arm64", VCPUs: 1, MemoryMiB: mib}, class)
			if err != nil {
				t.Fatal(err)
			}
			for name, q := range shape.Allocatable {
				capacity := shape.Capacity[name]
				if q.Sign() < 0 || q.Cmp(capacity) > 0 {
					t.Errorf("%+v, %d MiB: %s %s of %s", class, mib, name, q.String(), capacity.String())
				}
			}
			if _, ok := shape.Allocatable[corev1.ResourcePods]; !ok {
				t.Errorf("%+v: no pods", class)
			}
		}
	}
}
