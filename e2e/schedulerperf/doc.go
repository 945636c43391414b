// Package schedulerperf runs kube-scheduler's own benchmarks, test/integration/scheduler_perf of k8s.io/kubernetes, with Kubernetes' default
// profile and with slipway's plugins in the profile that slipway ships, one after the other in the same run. Kubernetes' files are read from
// the module's source and copied to a temporary folder; cases, pods, nodes, collectors and thresholds are Kubernetes' own.
package schedulerperf
