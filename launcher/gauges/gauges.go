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
	"github.com/slipway-k8s/slipway/launcher/index"
)

// within bounds the duration of one scrape: the cache may not be filled yet.
const within = 5 * time.Second

// Config is what a Collector reads.
type Config struct {
	// Reader reads NodeClaims, NodePools, EC2NodeClasses and Nodes from the cache.
	Reader client.Reader
	// Cache reads pods and Nodes.
	Cache index.Cache
	// Leading reports whether this replica leads: of two, only one reports.
	Leading func() bool
}

// Collector is a prometheus.Collector over the cache.
type Collector struct {
	config Config
	// labels maps each well-known label of Karpenter's to its names in metrics.
	labels map[string][]string
	names  []string

	standings                               []standing
	nodes                                   map[string]family
	lifetime, utilization, nodeCount, state family
	unbound, unstarted                      family
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector of the cache's state, which reports it while leading.
func New(config Config) (*Collector, error) {
	if config.Reader == nil || !config.Cache.Complete() || config.Leading == nil {
		return nil, errors.New("gauges: Reader, Cache and Leading are required")
	}
	c := &Collector{config: config, labels: map[string][]string{}, nodes: map[string]family{}}
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
		c.nodes[name] = newFamily("karpenter_nodes_"+name, help, append(slices.Clone(c.names), "resource_type")...)
	}
	c.lifetime = newFamily("karpenter_nodes_current_lifetime_seconds", "How old nodes are.", c.names...)
	c.utilization = newFamily("karpenter_cluster_utilization_percent", "Share of what nodes have that pods request.", "resource_type")
	c.nodeCount = newFamily("karpenter_cluster_state_node_count", "Nodes that there are.")
	c.state = newFamily("karpenter_pods_state", "Pods that there are, with where they are and how they stand.",
		"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed")
	c.unbound = newFamily("karpenter_pods_unbound_time_seconds", "How long pods that are not bound have waited.", "name", "namespace")
	c.unstarted = newFamily("karpenter_pods_unstarted_time_seconds", "How long pods that do not run yet have waited.", "name", "namespace")
	for _, k := range kinds() {
		c.standings = append(c.standings, newStanding(k))
	}
	return c, nil
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range c.nodes {
		to <- f.desc
	}
	for _, f := range []family{c.lifetime, c.utilization, c.nodeCount, c.state, c.unbound, c.unstarted} {
		to <- f.desc
	}
	for _, s := range c.standings {
		s.describe(to)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	if !c.config.Leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	out := newCollection(to)
	for _, s := range c.standings {
		if err := s.collect(ctx, c.config.Reader, out); err != nil {
			klog.Background().V(2).Info("Conditions are not reported: the cache is not filled yet", "kind", s.name, "err", err)
		}
	}
	nodes, errNodes := c.config.Cache.Nodes.All(ctx)
	pods, errPods := c.config.Cache.Pods.All(ctx)
	if err := errors.Join(errNodes, errPods); err != nil {
		klog.Background().V(2).Info("Nodes and pods are not reported: the cache is not filled yet", "err", err)
		return
	}
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
	}
	total, used := amounts{}, amounts{}
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
		reported := c.node(out, node, byNode[node.Name])
		total.add(reported["allocatable"])
		used.add(reported["total_pod_requests"])
	}
	for name, has := range total {
		if has > 0 {
			out.gauge(c.utilization, 100*used[name]/has, name)
		}
	}
	out.gauge(c.nodeCount, float64(len(nodes)))
	for _, pod := range pods {
		c.pod(out, pod, byName[pod.Spec.NodeName])
	}
}

// node reports a Node, and returns its amounts by metric. Pods' requests for resources that the Node does not have are left out: users may
// request zero of any number of resources.
func (c *Collector) node(out collection, node *corev1.Node, pods []*corev1.Pod) map[string]amounts {
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
			out.gauge(c.nodes[name], amount, append(values, resource)...)
		}
	}
	out.gauge(c.lifetime, time.Since(node.CreationTimestamp.Time).Seconds(), values...)
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

func (c *Collector) pod(out collection, pod *corev1.Pod, node *corev1.Node) {
	if node == nil {
		node = &corev1.Node{}
	}
	owner := ""
	if len(pod.OwnerReferences) > 0 {
		o := pod.OwnerReferences[0]
		owner = fmt.Sprintf("/apis/%s/namespaces/%s/%ss/%s", o.APIVersion, pod.Namespace, strings.ToLower(o.Kind), o.Name)
	}
	out.gauge(c.state, 1, pod.Name, pod.Namespace, owner, pod.Spec.NodeName, strconv.FormatBool(pod.Spec.NodeName != ""),
		node.Labels[karpv1.NodePoolLabelKey], node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelArchStable],
		node.Labels[karpv1.CapacityTypeLabelKey], node.Labels[corev1.LabelInstanceTypeStable],
		phase(string(pod.Status.Phase), "Pending", "Running", "Succeeded", "Failed", "Unknown"),
		strconv.FormatBool(conditions.PodIs(pod, corev1.PodReady)), strconv.FormatBool(managed(node)))
	if pod.Status.Phase != corev1.PodPending {
		return
	}
	age := time.Since(pod.CreationTimestamp.Time).Seconds()
	out.gauge(c.unstarted, age, pod.Name, pod.Namespace)
	if !conditions.PodIs(pod, corev1.PodScheduled) {
		out.gauge(c.unbound, age, pod.Name, pod.Namespace)
	}
}
