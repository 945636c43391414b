package gauges

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// within bounds the duration of one scrape: the cache may not be filled yet.
const within = 5 * time.Second

// Collector is a prometheus.Collector over the cache.
type Collector struct {
	cache   client.Reader
	leading func() bool
	// labels maps each well-known label of Karpenter's to its names in metrics.
	labels map[string][]string
	names  []string

	standings                               []standing
	nodes                                   map[string]*prometheus.Desc
	lifetime, utilization, nodeCount, state *prometheus.Desc
	unbound, unstarted                      *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector of the cache's state, which reports it while leading: of two replicas, only one does.
func New(cache client.Reader, leading func() bool) (*Collector, error) {
	if cache == nil || leading == nil {
		return nil, errors.New("gauges: a cache and whether we lead are required")
	}
	c := &Collector{cache: cache, leading: leading, labels: map[string][]string{}, nodes: map[string]*prometheus.Desc{}}
	for label := range karpv1.WellKnownLabels {
		if _, name, ok := strings.Cut(label, "/"); ok {
			name = snake(name)
			c.labels[name] = append(c.labels[name], label)
		}
	}
	c.names = append([]string{"node_name", "phase", "managed"}, slices.Sorted(maps.Keys(c.labels))...)
	for name, help := range map[string]string{
		"allocatable":           "What nodes have for pods.",
		"system_overhead":       "What nodes keep for their system: capacity less allocatable.",
		"total_pod_requests":    "What the pods of nodes request, those of DaemonSets included.",
		"total_pod_limits":      "What the pods of nodes are limited to, those of DaemonSets included.",
		"total_daemon_requests": "What the DaemonSet pods of nodes request.",
		"total_daemon_limits":   "What the DaemonSet pods of nodes are limited to.",
	} {
		c.nodes[name] = prometheus.NewDesc("karpenter_nodes_"+name, help, append(slices.Clone(c.names), "resource_type"), nil)
	}
	c.lifetime = prometheus.NewDesc("karpenter_nodes_current_lifetime_seconds", "How old nodes are.", c.names, nil)
	c.utilization = prometheus.NewDesc("karpenter_cluster_utilization_percent", "Share of what nodes have that pods request.", []string{"resource_type"}, nil)
	c.nodeCount = prometheus.NewDesc("karpenter_cluster_state_node_count", "Nodes that there are.", nil, nil)
	c.state = prometheus.NewDesc("karpenter_pods_state", "Pods that there are, with where they are and how they stand.", []string{
		"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed",
	}, nil)
	c.unbound = prometheus.NewDesc("karpenter_pods_unbound_time_seconds", "How long pods that are not bound have waited.", []string{"name", "namespace"}, nil)
	c.unstarted = prometheus.NewDesc("karpenter_pods_unstarted_time_seconds", "How long pods that do not run yet have waited.", []string{"name", "namespace"}, nil)
	for _, k := range kinds() {
		c.standings = append(c.standings, newStanding(k))
	}
	return c, nil
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.nodes {
		to <- d
	}
	for _, d := range []*prometheus.Desc{c.lifetime, c.utilization, c.nodeCount, c.state, c.unbound, c.unstarted} {
		to <- d
	}
	for _, s := range c.standings {
		s.describe(to)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	if !c.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, s := range c.standings {
		if err := s.collect(ctx, c.cache, to); err != nil {
			klog.Background().V(2).Info("Conditions are not reported: the cache is not filled yet", "kind", s.name, "err", err)
		}
	}
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	if err := errors.Join(c.cache.List(ctx, nodes, client.UnsafeDisableDeepCopy), c.cache.List(ctx, pods, client.UnsafeDisableDeepCopy)); err != nil {
		klog.Background().V(2).Info("Nodes and pods are not reported: the cache is not filled yet", "err", err)
		return
	}
	byNode := map[string][]*corev1.Pod{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
	}
	total, used := amounts{}, amounts{}
	byName := make(map[string]*corev1.Node, len(nodes.Items))
	for i := range nodes.Items {
		node := &nodes.Items[i]
		byName[node.Name] = node
		reported := c.node(to, node, byNode[node.Name])
		total.add(reported["allocatable"])
		used.add(reported["total_pod_requests"])
	}
	for name, has := range total {
		if has > 0 {
			to <- gauge(c.utilization, 100*used[name]/has, name)
		}
	}
	to <- gauge(c.nodeCount, float64(len(nodes.Items)))
	for i := range pods.Items {
		c.pod(to, &pods.Items[i], byName[pods.Items[i].Spec.NodeName])
	}
}

// node reports a Node, and returns its amounts by metric. Pods' requests for resources that the Node does not have are left out: users may
// request zero of any number of resources.
func (c *Collector) node(to chan<- prometheus.Metric, node *corev1.Node, pods []*corev1.Pod) map[string]amounts {
	values := []string{node.Name, phase(string(node.Status.Phase), "Pending", "Running", "Terminated"), strconv.FormatBool(managed(node))}
	for _, name := range c.names[len(values):] {
		value := ""
		for _, label := range c.labels[name] {
			value = max(value, node.Labels[label])
		}
		values = append(values, value)
	}
	names := Resources(had(node))
	reported := sum(pods, names)
	reported["allocatable"] = amountsOf(node.Status.Allocatable, names)
	reported["system_overhead"] = amountsOf(less(node.Status.Capacity, node.Status.Allocatable), names)
	for name, list := range reported {
		for resource, amount := range list {
			to <- gauge(c.nodes[name], amount, append(slices.Clone(values), resource)...)
		}
	}
	to <- gauge(c.lifetime, time.Since(node.CreationTimestamp.Time).Seconds(), values...)
	return reported
}

// had returns the resources in a Node's allocatable, including those with an amount of zero, such as unhealthy devices: pods may still use
// them.
func had(node *corev1.Node) corev1.ResourceList {
	out := maps.Clone(node.Status.Allocatable)
	for name, q := range out {
		if q.IsZero() {
			out[name] = node.Status.Capacity[name]
		}
	}
	return out
}

// phase returns a phase if it is a known one, otherwise "": the API server accepts any text.
func phase(is string, known ...string) string {
	if slices.Contains(known, is) {
		return is
	}
	return ""
}

func managed(node *corev1.Node) bool { return node.Labels[karpv1.NodePoolLabelKey] != "" }

func (c *Collector) pod(to chan<- prometheus.Metric, pod *corev1.Pod, node *corev1.Node) {
	if node == nil {
		node = &corev1.Node{}
	}
	owner := ""
	if len(pod.OwnerReferences) > 0 {
		o := pod.OwnerReferences[0]
		owner = fmt.Sprintf("/apis/%s/namespaces/%s/%ss/%s", o.APIVersion, pod.Namespace, strings.ToLower(o.Kind), o.Name)
	}
	to <- gauge(c.state, 1, pod.Name, pod.Namespace, owner, pod.Spec.NodeName, strconv.FormatBool(pod.Spec.NodeName != ""),
		node.Labels[karpv1.NodePoolLabelKey], node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelArchStable],
		node.Labels[karpv1.CapacityTypeLabelKey], node.Labels[corev1.LabelInstanceTypeStable],
		phase(string(pod.Status.Phase), "Pending", "Running", "Succeeded", "Failed", "Unknown"),
		strconv.FormatBool(conditions.PodIs(pod, corev1.PodReady)), strconv.FormatBool(managed(node)))
	if pod.Status.Phase != corev1.PodPending {
		return
	}
	age := time.Since(pod.CreationTimestamp.Time).Seconds()
	to <- gauge(c.unstarted, age, pod.Name, pod.Namespace)
	if !conditions.PodIs(pod, corev1.PodScheduled) {
		to <- gauge(c.unbound, age, pod.Name, pod.Namespace)
	}
}
