package main

import (
	"strings"
	"testing"
)

// mistakes are pods that no node can be launched for, each by a mistake that is not in the pod's own words.
const mistakes = anyPoolYAML + `apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-d}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: default, name: data}
  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1d]}]}]}}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, annotations: {pv.kubernetes.io/bind-completed: 'yes'}}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: pv-d, resources: {requests: {storage: 1Gi}}}
status: {phase: Bound}
---
apiVersion: v1
kind: Pod
metadata: {name: volume}
spec:
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  containers: [{name: main, resources: {requests: {cpu: 500m}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: family}
spec:
  nodeSelector: {karpenter.k8s.aws/instance-family: m7gg}
  containers: [{name: main, resources: {requests: {cpu: 500m}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: domains}
spec:
  replicas: 4
  selector: {matchLabels: {app: domains}}
  template:
    metadata: {labels: {app: domains}}
    spec:
      topologySpreadConstraints:
      - {maxSkew: 1, minDomains: 5, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: domains}}}
      containers: [{name: main, resources: {requests: {cpu: 500m}}}]
`

// The reason of a pod names what causes it: the claim and the volume of a zone, minDomains, the family that a misspelled one is like.
func TestReasonsNameTheirCause(t *testing.T) {
	zones := write(t, "zones.json", `["us-east-1a", "us-east-1b", "us-east-1c"]`)
	for pod, want := range map[string]string{
		"volume": "(where volume pv-d of claim data is)", "family": "did you mean m7g?", "domains-3": "minDomains is 5: of 3 domains none may have more",
	} {
		out, _, err := slipway(t, mistakes, "explain", "-f", "-", "--zones", zones, "pod", "default/"+pod)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %q in\n%s", pod, err, want, out)
		}
	}
}

// What takes nodes, and is not known by its price, is no figure: neither in the table nor on the page.
func TestUnknownPricesAreNoFigures(t *testing.T) {
	fleet := `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
---
apiVersion: v1
kind: Node
metadata:
  name: empty
  creationTimestamp: "2026-01-01T00:00:00Z"
  labels: {karpenter.sh/nodepool: default, karpenter.sh/capacity-type: spot, node.kubernetes.io/instance-type: c6a.4xlarge, topology.kubernetes.io/zone: us-east-1a, kubernetes.io/os: linux, karpenter.sh/initialized: "true"}
status:
  allocatable: {cpu: 15910m, memory: 30Gi, pods: "58"}
  conditions: [{type: Ready, status: "True"}]
`
	for _, format := range []string{"table", "html"} {
		out, _, err := slipway(t, fleet, "simulate", "-f", "-", "--consolidate", "-o", format)
		if err != nil || !strings.Contains(out, "what 1 node without a known price cost") || strings.Contains(out, "saves 0.0000") || strings.Contains(out, ">0.0000 USD/h</b> <small>if every") {
			t.Errorf("%s: %v:\n%s", format, err, out)
		}
	}
}
