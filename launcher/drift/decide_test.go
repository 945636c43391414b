package drift_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/drift"
)

// change is what differs from the facts without drift.
type change struct {
	// Claim, Pool and Class are merged into the objects.
	Claim karpv1.NodeClaim
	Pool  karpv1.NodePool
	Class awsv1.EC2NodeClass
	// Age of the claim; 2h where it is not said.
	Age metav1.Duration
	// Types that are offered, in the claim's zone and capacity type; m5.large where it is not said.
	Types []string
	// Group is the placement group of the types.
	Group string
	// Zone of the offerings.
	Zone string
	// Subnet and SecurityGroups of the instance.
	Subnet         string
	SecurityGroups []string
	// Reservation that the instance runs in.
	Reservation string
	// OfferedAs is the capacity type of the offerings; spot where it is not said.
	OfferedAs string
	// Unknown says that neither types nor the instance are known.
	Unknown bool
}

// asLaunched are the facts of a claim without drift.
const asLaunched = `
claim:
  metadata:
    name: claim
    labels: {node.kubernetes.io/instance-type: m5.large, topology.kubernetes.io/zone: us-east-1a, karpenter.sh/capacity-type: spot, kubernetes.io/arch: amd64}
    annotations:
      karpenter.sh/nodepool-hash: "1"
      karpenter.sh/nodepool-hash-version: v3
      karpenter.k8s.aws/ec2nodeclass-hash: "1"
      karpenter.k8s.aws/ec2nodeclass-hash-version: v5
  status: {imageID: ami-new}
pool:
  metadata:
    name: pool
    annotations: {karpenter.sh/nodepool-hash: "1", karpenter.sh/nodepool-hash-version: v3}
  spec: {template: {spec: {requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}}}
class:
  metadata:
    name: class
    annotations: {karpenter.k8s.aws/ec2nodeclass-hash: "1", karpenter.k8s.aws/ec2nodeclass-hash-version: v5}
  status:
    amis:
    - {id: ami-arm, requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}
    - {id: ami-new, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}
    - {id: ami-old, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}
    subnets: [{id: subnet-a, zone: us-east-1a}, {id: subnet-b, zone: us-east-1b}]
    securityGroups: [{id: sg-1}, {id: sg-2}]
age: 2h
types: [m5.large]
zone: us-east-1a
subnet: subnet-a
securityGroups: [sg-2, sg-1]
offeredAs: spot
`

// TestScenarios runs testdata/*.txt: what is changed in the facts as launched, in YAML, and the drift that follows.
func TestScenarios(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			var c change
			for _, text := range []string{asLaunched, d.Input} {
				if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
					d.Fatalf(t, "%v", err)
				}
			}
			c.Claim.CreationTimestamp = metav1.NewTime(now.Add(-c.Age.Duration))
			f := drift.Facts{Now: now, Claim: &c.Claim, Pool: &c.Pool, Class: &c.Class}
			if !c.Unknown {
				f.Instance = &cloud.Instance{SubnetID: c.Subnet, SecurityGroupIDs: c.SecurityGroups, ReservationID: c.Reservation}
				for _, name := range c.Types {
					labels := map[string]string{catalog.LabelPlacementGroupID: c.Group}
					f.Types = append(f.Types, catalog.InstanceType{Name: name, Labels: labels, Offerings: []catalog.Offering{{Zone: c.Zone, CapacityType: c.OfferedAs}}})
				}
			}
			got := drift.Decide(f)
			if got.Reason == "" {
				return "no drift"
			}
			return strings.TrimSpace(fmt.Sprintf("%s: %s", got.Reason, got.Message))
		})
	})
}
