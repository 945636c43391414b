// Command karpentersuite runs the test suites that Karpenter publishes in its module against slipway in a sandbox.
//
// It compiles sigs.k8s.io/karpenter/test/suites/regression and performance in the versions of suites.mod, and copies nothing of them. It brings
// up `slipway-sandbox up` with one node of a managed node group, taints that node, as the suites expect.
// The NodePool and the EC2NodeClass are those with which Karpenter's AWS provider runs the same suites: the files are read from the provider's
// module. The cases of CapacityBuffer narrow kwok's NodePool to nodes of 2 CPUs themselves: here they run with the provider's, narrowed the same way.
// Deadlines are the suites' own. Cases that measure grace periods in real seconds run at EC2's speed, on a sandbox of their own.
//
// The result is a table of all cases: passed, failed, or left out with the reason of leftout.go. A name of leftout.go that no case has fails.
package main
