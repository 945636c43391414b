package gauges

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/repair"
)

// kind is a kind of object whose conditions are reported.
type kind struct {
	// name is the part of the metrics' names.
	name string
	// list is an empty list of its objects.
	list client.ObjectList
	// labels are labels of an object that its metrics have too.
	labels []string
	// buckets are those of the durations.
	buckets []float64
	// counted are the types of conditions whose changes are counted by name; all others are counted as other, because a counter is never
	// removed. Nil counts all by name: the schemas of these kinds, or their only writer, bound them.
	counted []string
}

// other is the label value for unknown reasons and types of Nodes' conditions. Kubelets and agents may write any.
const other = "Other"

// kinds returns the kinds that Karpenter reports, with the labels that it adds (pkg/controllers/controllers.go, status.NewController).
func kinds() []kind {
	class, buckets := "karpenter.k8s.aws/ec2nodeclass", prometheus.ExponentialBuckets(0.5, 2, 15)
	return []kind{
		{"nodeclaim", &karpv1.NodeClaimList{}, []string{class, karpv1.NodePoolLabelKey}, buckets, nil},
		{"nodepool", &karpv1.NodePoolList{}, nil, buckets, nil},
		{"ec2nodeclass", &awsv1.EC2NodeClassList{}, nil, prometheus.DefBuckets, nil},
		{"node", &corev1.NodeList{}, []string{class, karpv1.NodePoolLabelKey, karpv1.NodeInitializedLabelKey}, buckets, nodeConditions()},
	}
}

// nodeConditions returns the types of Nodes' conditions that the kubelet and the node lifecycle controller write, those of the EKS node
// monitoring agent (package repair), and those of node-problem-detector's default configuration.
func nodeConditions() []string {
	out := []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
	for _, p := range repair.Policies() {
		out = append(out, string(p.Type))
	}
	return append(out, "KernelDeadlock", "ReadonlyFilesystem", "CorruptDockerOverlay2", "XfsShutdown", "KubeletUnhealthy",
		"ContainerRuntimeUnhealthy", "FrequentKubeletRestart", "FrequentDockerRestart", "FrequentContainerdRestart",
		"FrequentUnregisterNetDevice")
}

// nodeReasons returns the reasons that the kubelet (pkg/kubelet/nodestatus/setters.go), the node lifecycle controller, the
// cloud-controller-manager's route controller and the usual network agents write.
func nodeReasons() []string {
	return []string{
		"KubeletReady", "KubeletNotReady", "KubeletHasSufficientMemory", "KubeletHasInsufficientMemory", "KubeletHasNoDiskPressure",
		"KubeletHasDiskPressure", "KubeletHasSufficientPID", "KubeletHasInsufficientPID", "NodeStatusUnknown", "NodeStatusNeverUpdated",
		"RouteCreated", "NoRouteCreated", "CalicoIsUp", "CalicoIsDown", "CiliumIsUp", "FlannelIsUp",
	}
}

// nodeReason returns a known reason, or other; "" stays "".
func nodeReason(reason string) string {
	if reason == "" || slices.Contains(nodeReasons(), reason) {
		return reason
	}
	return other
}

// metric returns the name of one of the kind's metrics.
func (k kind) metric(name string) string { return "operator_" + k.name + "_" + name }

// names returns the names of a metric's labels: its own and those of the object.
func (k kind) names(own ...string) []string {
	for _, label := range k.labels {
		own = append(own, strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(label))
	}
	return own
}

// values returns the values of the labels that names returns.
func (k kind) values(labels map[string]string, own ...string) []string {
	for _, label := range k.labels {
		own = append(own, labels[label])
	}
	return own
}

// countedAs returns the name under which changes of a type of condition are counted.
func (k kind) countedAs(conditionType string) string {
	if k.counted == nil || slices.Contains(k.counted, conditionType) {
		return conditionType
	}
	return other
}

// conditionsOf returns an object's conditions, at most mostConditions, one of each type: the API server does not look for two in a
// Node.
func conditionsOf(obj client.Object) []metav1.Condition {
	seen := map[string]bool{}
	all := slices.DeleteFunc(everyCondition(obj), func(c metav1.Condition) bool {
		double := seen[bounded(c.Type)]
		seen[bounded(c.Type)] = true
		return double
	})
	return all[:min(len(all), mostConditions)]
}

// everyCondition returns all conditions of an object.
func everyCondition(obj client.Object) []metav1.Condition {
	var out []metav1.Condition
	switch o := obj.(type) {
	case status.Object:
		for _, c := range o.GetConditions() {
			out = append(out, metav1.Condition(c))
		}
	case *corev1.Node:
		for _, c := range o.Status.Conditions {
			out = append(out, metav1.Condition{
				Type: string(c.Type), Status: conditionStatus(c.Status), Reason: nodeReason(c.Reason), LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	return out
}

// conditionStatus returns one of the three valid statuses: the API server accepts any text.
func conditionStatus(s corev1.ConditionStatus) metav1.ConditionStatus {
	if s == corev1.ConditionTrue || s == corev1.ConditionFalse {
		return metav1.ConditionStatus(s)
	}
	return metav1.ConditionUnknown
}

// standing reports the current conditions of a kind's objects.
type standing struct {
	kind
	count, seconds, terminating family
}

func newStanding(k kind) standing {
	condition := k.names("namespace", "name", "type", "status", "reason")
	return standing{
		kind:        k,
		count:       newFamily(k.metric("status_condition_count"), "Conditions that objects have: 1 each.", condition...),
		seconds:     newFamily(k.metric("status_condition_current_status_seconds"), "How long conditions have had their status.", condition...),
		terminating: newFamily(k.metric("termination_current_time_seconds"), "How long objects have been ending.", k.names("namespace", "name")...),
	}
}

func (s standing) describe(to chan<- *prometheus.Desc) {
	to <- s.count.desc
	to <- s.seconds.desc
	to <- s.terminating.desc
}

func (s standing) collect(ctx context.Context, cache client.Reader, out collection) error {
	list, ok := s.list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return fmt.Errorf("gauges: %T is no list", s.list)
	}
	if err := cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	now := time.Now()
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("gauges: %T is no object", item)
		}
		for _, c := range conditionsOf(obj) {
			labels := s.values(obj.GetLabels(), obj.GetNamespace(), obj.GetName(), c.Type, string(c.Status), c.Reason)
			out.gauge(s.count, 1, labels...)
			out.gauge(s.seconds, now.Sub(c.LastTransitionTime.Time).Seconds(), labels...)
		}
		if at := obj.GetDeletionTimestamp(); at != nil {
			out.gauge(s.terminating, now.Sub(at.Time).Seconds(), s.values(obj.GetLabels(), obj.GetNamespace(), obj.GetName())...)
		}
		return nil
	})
}
