package plugin

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slipway-k8s/slipway/internal/announce"
)

// Options of a Plugin.
type Options struct {
	// Registerer of the plugin's metrics. Required.
	Registerer prometheus.Registerer
	// Fault is called at each entry point with its name and the pod, nil where there is none; nil for nothing. Tests
	// make it panic.
	Fault func(point string, pod *corev1.Pod)
}

// Scheduler is what Install needs of the scheduler that the plugins were built into.
type Scheduler struct {
	// Scheduler as built, not running yet. Required.
	Scheduler *scheduler.Scheduler
	// Profiles it was built with. Required.
	Profiles []config.KubeSchedulerProfile
	// Informers it was built with, not started yet. Required.
	Informers informers.SharedInformerFactory
	// Client it was built with. Required.
	Client clientset.Interface
	// Recorder of Events, in slipway's name. Required.
	Recorder announce.EventRecorder
	// Karpenter is the recorder of Events that Karpenter writes too, in its name; nil for Recorder.
	Karpenter announce.EventRecorder
	// Extenders it was built with; nil for none.
	Extenders []config.Extender
	// PercentageOfNodesToScore it was built with; 0 for kube-scheduler's own choice.
	PercentageOfNodesToScore int32
	// OutOfTree are the plugins that it was built with besides slipway's; nil for none.
	OutOfTree frameworkruntime.Registry
	// Identity of the leader election, exactly as its lock gives it; empty where there is none.
	Identity string
	// LeaseNamespace and LeaseName of the leader election.
	LeaseNamespace, LeaseName string
}
