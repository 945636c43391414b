package cloudtest_test

import (
	"errors"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/cloudtest"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// TestMemory holds the in-memory cloud, on which the launcher's tests stand, to the same contract as AWS.
func TestMemory(t *testing.T) { run(t, nil) }

// TestMemoryWithoutClientTokens runs the contract with an in-memory cloud that launches again at each repetition.
func TestMemoryWithoutClientTokens(t *testing.T) {
	run(t, func(f cloudtest.Feature) bool { return f == cloudtest.ClientTokens })
}

func run(t *testing.T, lacks func(cloudtest.Feature) bool) {
	t.Helper()
	cloudtest.Run(t, func(t *testing.T) cloudtest.Fixture {
		t.Helper()
		c := memory.New(memory.Config{IgnoreTokens: lacks != nil, Types: []catalog.InstanceType{
			instanceType(t, "m7g.large", 2, 8192, 0.08), instanceType(t, "m7g.xlarge", 4, 16384, 0.16),
		}})
		return cloudtest.Fixture{
			Cloud: c, Lacks: lacks,
			Class: &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
			NoCapacity: func(o cloud.Option) {
				c.SetCapacity(memory.Offering{InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType}, 0)
			},
			Interrupt: func(id string) { c.Send(cloud.Message{Kind: cloud.SpotInterrupted, InstanceIDs: []string{id}}) },
			Impair:    c.Impair,
			Garble:    func() { c.Send(cloud.Message{Err: errors.New("the message is not an EventBridge event")}) },
		}
	})
}

func instanceType(t *testing.T, name string, vcpus, mib int64, price float64) catalog.InstanceType {
	t.Helper()
	out, err := catalog.New(catalog.Facts{Name: name, Arch: "arm64", VCPUs: vcpus, MemoryMiB: mib}, catalog.NodeClass{AMIFamily: catalog.FamilyAL2023})
	if err != nil {
		t.Fatal(err)
	}
	for i, zone := range []string{"a", "b", "c"} {
		out.Offerings = append(out.Offerings,
			catalog.Offering{Zone: "us-east-1" + zone, ZoneID: "use1-az" + zone, CapacityType: "on-demand", Price: price, Available: true},
			catalog.Offering{Zone: "us-east-1" + zone, ZoneID: "use1-az" + zone, CapacityType: "spot", Price: price * (0.3 + 0.01*float64(i)), Available: true},
		)
	}
	return out
}
