package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The performance suite reads the memory and CPU time of Karpenter's pod through the API server: from port 8080 of the pod that holds this
// Lease.
const (
	figuresNamespace = "kube-system"
	figuresLease     = "karpenter-leader-election"
	figuresPod       = "slipway"
	figuresPort      = "8080"
)

// The metrics that the suite reads.
const (
	memoryMetric = "process_resident_memory_bytes"
	cpuMetric    = "process_cpu_seconds_total"
)

// serveFigures serves the sums of scheduler and launcher as those of a pod, which exists only as an object: its address is this host's. The
// Lease has no time of renewal, so the launcher takes it for that of no living Karpenter. parent is the sandbox's process; end stops serving.
func serveFigures(ctx context.Context, config *rest.Config, parent int) (end func() error, err error) {
	address, err := hostAddress()
	if err != nil {
		return nil, fmt.Errorf("serving the figures of the performance suite: %w", err)
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(sums{parent: parent}); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, figuresPort))
	if err != nil {
		return nil, fmt.Errorf("serving the figures of the performance suite: %w", err)
	}
	server := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	if err := announce(ctx, config, address); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server.Close, nil
}

// announce creates the Lease and the pod that lead the suite to the address.
func announce(ctx context.Context, config *rest.Config, address string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: figuresLease}}
	lease.Spec.HolderIdentity = new(figuresPod + "_suite")
	if _, err := client.CoordinationV1().Leases(figuresNamespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating Lease %s: %w", figuresLease, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: figuresPod}}
	pod.Spec.SchedulerName = "none" // It is never bound.
	pod.Spec.Containers = []corev1.Container{{Name: "controller", Image: "none"}}
	if pod, err = client.CoreV1().Pods(figuresNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating pod %s: %w", figuresPod, err)
	}
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	if _, err := client.CoreV1().Pods(figuresNamespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the address of pod %s: %w", figuresPod, err)
	}
	return nil
}

// hostAddress returns an IPv4 address of this host that the API server connects to: none of loopback.
func hostAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String(), nil
		}
	}
	return "", errors.New("this host has no IPv4 address other than that of loopback")
}

// sums collects the memory and CPU time of slipway's processes, the children of one process.
type sums struct{ parent int }

// Describe implements prometheus.Collector.
func (s sums) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, to) }

// Collect implements prometheus.Collector.
func (s sums) Collect(to chan<- prometheus.Metric) {
	total := map[string]float64{memoryMetric: 0, cpuMetric: 0}
	pids, err := slipwayProcesses(s.parent)
	for _, pid := range pids {
		var of map[string]float64
		if of, err = usage(pid); err != nil {
			break
		}
		for name := range total {
			total[name] += of[name]
		}
	}
	desc := func(name string) *prometheus.Desc {
		return prometheus.NewDesc(name, "Sum of slipway-scheduler and slipway-launcher.", nil, nil)
	}
	if err != nil {
		to <- prometheus.NewInvalidMetric(desc(memoryMetric), err)
		return
	}
	to <- prometheus.MustNewConstMetric(desc(memoryMetric), prometheus.GaugeValue, total[memoryMetric])
	to <- prometheus.MustNewConstMetric(desc(cpuMetric), prometheus.CounterValue, total[cpuMetric])
}

// usage reads a process's metrics.
func usage(pid int) (map[string]float64, error) {
	registry := prometheus.NewRegistry()
	collector := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{PidFn: func() (int, error) { return pid, nil }, ReportErrors: true})
	if err := registry.Register(collector); err != nil {
		return nil, err
	}
	families, err := registry.Gather()
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out, nil
}

// slipwayProcesses returns the children of a process that are scheduler or launcher (Linux).
func slipwayProcesses(parent int) ([]int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		for field := range strings.FieldsSeq(string(text)) {
			name, err := os.ReadFile(filepath.Join("/proc", field, "comm"))
			pid, wrong := strconv.Atoi(field)
			if err == nil && wrong == nil && strings.HasPrefix(string(name), "slipway-") {
				out = append(out, pid)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("finding the processes of slipway: process %d has none of them as a child", parent)
	}
	return out, nil
}
