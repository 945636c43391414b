// Package forward reaches the API of a launcher in a cluster from the user's machine: it finds a pod that serves it and opens a port-forward to it
// with client-go, as kubectl does, when a connection is asked for. A port-forward that ended is opened again by the next connection. One ends when
// another replica leads, which is looked at twice a minute.
//
// A Forwarder is safe for concurrent use. Each port-forward has goroutines that end with it or with the Forwarder's context.
package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// portName is that of the container's port which serves the API, as the chart has it.
	portName = "https-api"
	// lease is the name of the scheduler's Lease in slipway's namespace, as the chart has it.
	lease = "slipway-scheduler"
	// opens bounds how long it takes to find a pod and to open a port-forward to it.
	opens = 20 * time.Second
	// looks is the period of reading the Lease while a port-forward is open.
	looks = 30 * time.Second
)

// Config is what a Forwarder needs. All fields are required.
type Config struct {
	// Kubernetes is the connection to the API server.
	Kubernetes *rest.Config
	// Namespace that slipway runs in.
	Namespace string
	// Selector are the labels of its pods, such as app.kubernetes.io/name=slipway.
	Selector string
}

// Forwarder opens connections to a launcher's API.
type Forwarder struct {
	config  Config
	clients kubernetes.Interface
	// done ends all port-forwards.
	done <-chan struct{}
	// looks is the constant of that name, but in tests.
	looks time.Duration

	mu sync.Mutex
	// open is the port-forward that connections use; nil for none.
	open *tunnel
}

// tunnel is one port-forward.
type tunnel struct {
	address string
	// pod that it ends at.
	pod corev1.Pod
	// ended is closed when it has ended.
	ended chan struct{}
}

// New returns a Forwarder whose port-forwards end with the context.
func New(ctx context.Context, c Config) (*Forwarder, error) {
	if c.Kubernetes == nil || c.Namespace == "" || c.Selector == "" {
		return nil, errors.New("forwarding a port: Kubernetes, Namespace and Selector are required")
	}
	clients, err := kubernetes.NewForConfig(c.Kubernetes)
	if err != nil {
		return nil, err
	}
	return &Forwarder{config: c, clients: clients, done: ctx.Done(), looks: looks}, nil
}

// DialContext returns a connection to the launcher's API, whatever address it is asked for.
func (f *Forwarder) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	t, err := f.tunnel(ctx)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", t.address)
}

// tunnel returns the open port-forward, or opens one.
func (f *Forwarder) tunnel(ctx context.Context) (*tunnel, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		select {
		case <-f.open.ended:
		default:
			return f.open, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, opens)
	defer cancel()
	pod, port, err := f.find(ctx, f.leader(ctx))
	if err != nil {
		return nil, err
	}
	if f.open, err = f.to(ctx, pod, port); err != nil {
		return nil, fmt.Errorf("forwarding a port of pod %s/%s: %w", f.config.Namespace, pod.Name, err)
	}
	return f.open, nil
}

// find returns a pod that serves the API, and the port.
func (f *Forwarder) find(ctx context.Context, leader string) (corev1.Pod, int32, error) {
	list, err := f.clients.CoreV1().Pods(f.config.Namespace).List(ctx, metav1.ListOptions{LabelSelector: f.config.Selector})
	if err != nil {
		return corev1.Pod{}, 0, fmt.Errorf("looking for slipway's pods in namespace %s: %w", f.config.Namespace, err)
	}
	return choose(list.Items, f.config, leader)
}

// overtaken reports whether another pod than a port-forward's leads and serves the API. A Lease without a holder leaves the port-forward as it is.
func (f *Forwarder) overtaken(ctx context.Context, t *tunnel) bool {
	ctx, cancel := context.WithTimeout(ctx, opens)
	defer cancel()
	leader := f.leader(ctx)
	if leader == "" || leads(t.pod, leader) {
		return false
	}
	pod, _, err := f.find(ctx, leader)
	return err == nil && leads(pod, leader)
}

// wait returns when a port-forward is of no use anymore: it has ended, another pod leads, or the Forwarder ends.
func (f *Forwarder) wait(ctx context.Context, t *tunnel) {
	look := time.NewTicker(f.looks)
	defer look.Stop()
	for {
		select {
		case <-f.done:
			return
		case <-t.ended:
			return
		case <-look.C:
			if f.overtaken(ctx, t) {
				return
			}
		}
	}
}

// leader returns the identity that holds the scheduler's Lease; empty if there is none, or if the user may not read it.
func (f *Forwarder) leader(ctx context.Context) string {
	held, err := f.clients.CoordinationV1().Leases(f.config.Namespace).Get(ctx, lease, metav1.GetOptions{})
	if err != nil || held.Spec.HolderIdentity == nil {
		return ""
	}
	return *held.Spec.HolderIdentity
}

// leads reports whether an identity is that of a pod's scheduler: its host's name, which is the pod's or its node's, and what makes it unique.
func leads(pod corev1.Pod, identity string) bool {
	return strings.HasPrefix(identity, pod.Name+"_") || pod.Spec.HostNetwork && strings.HasPrefix(identity, pod.Spec.NodeName+"_")
}

// choose returns a pod whose launcher runs and serves the API, and the port: the one that leads, or else the first by name. Every replica answers, but
// only that one knows what EC2 refuses and what consolidation decides.
func choose(pods []corev1.Pod, c Config, leader string) (corev1.Pod, int32, error) {
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		if x, y := leads(a, leader), leads(b, leader); x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return cmp.Compare(a.Name, b.Name)
	})
	runs := false
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		runs = true
		for _, c := range pod.Spec.Containers {
			for _, port := range c.Ports {
				if port.Name == portName && started(pod, c.Name) {
					return pod, port.ContainerPort, nil
				}
			}
		}
	}
	if runs {
		return corev1.Pod{}, 0, fmt.Errorf("looking for the API in namespace %s: no launcher serves it: helm upgrade slipway ... --set controller.api.enabled=true", c.Namespace)
	}
	return corev1.Pod{}, 0, fmt.Errorf("looking for slipway's pods in namespace %s: none with the labels %s runs: --slipway-namespace or --selector names others", c.Namespace, c.Selector)
}

// started reports whether a pod's container runs. One that the status does not list has not started.
func started(pod corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container && s.State.Running != nil })
}

// to opens a port-forward to a pod's port, on a free port of loopback. Behind it the launcher asks for an identity, as everywhere.
func (f *Forwarder) to(ctx context.Context, pod corev1.Pod, port int32) (*tunnel, error) {
	dialer, err := f.dialer(pod.Name)
	if err != nil {
		return nil, err
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(int(port))}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	t, failed := &tunnel{pod: pod, ended: make(chan struct{})}, make(chan error, 1)
	go func() {
		defer close(t.ended)
		failed <- forwarder.ForwardPorts()
	}()
	end := sync.OnceFunc(func() { close(stop) })
	go func() {
		defer end()
		f.wait(context.WithoutCancel(ctx), t)
	}()
	select {
	case <-ready:
	case err := <-failed:
		return nil, cmp.Or(err, errors.New("it ended at once"))
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		end()
		return nil, err
	}
	t.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local)))
	return t, nil
}

// dialer returns what opens the connection of a port-forward: a WebSocket, or SPDY where the API server, or a proxy before it, knows no better.
func (f *Forwarder) dialer(pod string) (httpstream.Dialer, error) {
	url := f.clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(f.config.Namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(f.config.Kubernetes)
	if err != nil {
		return nil, err
	}
	tunneling, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, f.config.Kubernetes)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	return portforward.NewFallbackDialerForStreaming(tunneling, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
