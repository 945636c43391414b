package forward

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upgrade "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// kubelet copies between a port-forward's streams and a server, as a kubelet's runtime does.
type kubelet struct {
	opened atomic.Int32
	// leader is the identity that holds the cluster's Lease; nil for none.
	leader atomic.Pointer[string]
}

// PortForward implements the interface of the runtime's streaming server.
func (k *kubelet) PortForward(ctx context.Context, _ string, _ string, port int32, stream io.ReadWriteCloser) error {
	k.opened.Add(1)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.Close()
	}()
	_, _ = io.Copy(stream, conn) // Its end is that of one side or of the other.
	return nil
}

// responder answers where the kubelet cannot be reached.
type responder struct{}

// Error implements the interface of the API server's proxies.
func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusBadGateway)
}

func pod(name string, phase corev1.PodPhase, port int32) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "scheduler"}, {Name: "controller"}}
	if port != 0 {
		p.Spec.Containers[1].Ports = []corev1.ContainerPort{{Name: "https-api", ContainerPort: port}}
	}
	p.Status.Phase = phase
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "controller", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

// cluster is an API server with pods, whose port-forwards are the real protocol's: in WebSockets by the API server's own code, or in SPDY alone, as of
// an older one. cut ends those that are open.
func cluster(t *testing.T, webSockets bool, pods ...corev1.Pod) (config *rest.Config, k *kubelet, cut func()) {
	t.Helper()
	k = &kubelet{}
	streaming := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		portforward.ServePortForward(w, r, k, "slipway", "", nil, time.Minute, time.Minute, portforward.SupportedProtocols)
	}))
	t.Cleanup(streaming.Close)
	location, err := url.Parse(streaming.URL)
	if err != nil {
		t.Fatal(err)
	}
	toKubelet := upgrade.NewUpgradeAwareHandler(location, http.DefaultTransport, false, true, responder{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/pods", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods})
	})
	mux.HandleFunc("/api/v1/namespaces/kube-system/pods/{name}/portforward", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			toKubelet.ServeHTTP(w, r)
		case webSockets:
			proxy.NewTunnelingHandler(toKubelet).ServeHTTP(w, r)
		default:
			http.Error(w, "no WebSockets", http.StatusForbidden)
		}
	})
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/slipway-scheduler", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: k.leader.Load()},
		})
	})
	server := httptest.NewUnstartedServer(mux)
	var opened []net.Conn
	server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateHijacked {
			opened = append(opened, c)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, k, func() {
		for _, c := range opened {
			_ = c.Close()
		}
	}
}

// A connection reaches the launcher's port through a port-forward, which others use too, and which is opened again once it is lost.
func TestForward(t *testing.T) {
	for name, webSockets := range map[string]bool{"WebSockets": true, "SPDY": false} {
		t.Run(name, func(t *testing.T) { forwards(t, webSockets) })
	}
}

func forwards(t *testing.T, webSockets bool) {
	t.Helper()
	launcher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "nodes") }))
	defer launcher.Close()
	port, err := strconv.Atoi(launcher.URL[strings.LastIndex(launcher.URL, ":")+1:])
	if err != nil {
		t.Fatal(err)
	}
	config, k, cut := cluster(t, webSockets, pod("slipway-a", corev1.PodPending, 1), pod("slipway-b", corev1.PodRunning, int32(port)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := New(ctx, Config{Kubernetes: config, Namespace: "kube-system", Selector: "app.kubernetes.io/name=slipway"})
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: f.DialContext, DisableKeepAlives: true}}
	ask := func() {
		t.Helper()
		answer, err := client.Get("http://slipway-launcher/api/v1/nodes")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || string(body) != "nodes" {
			t.Fatalf("%q %v", body, err)
		}
	}
	ask()
	first := f.open
	ask()
	if f.open != first || k.opened.Load() != 2 {
		t.Errorf("%d connections through another port-forward", k.opened.Load())
	}
	cut()
	<-first.ended
	ask()
	if f.open == first {
		t.Error("the port-forward that ended is used")
	}
	last := f.open
	cancel()
	<-last.ended
}

// replica serves its name, and returns its port.
func replica(t *testing.T, name string) int32 {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	t.Cleanup(server.Close)
	return int32(server.Listener.Addr().(*net.TCPAddr).Port)
}

// Once another replica leads, a connection that is kept open ends, and the next one reaches that replica. While none leads, or one that cannot be
// reached, the connection stays.
func TestAnotherReplicaLeads(t *testing.T) {
	config, k, _ := cluster(t, true, pod("slipway-a", corev1.PodRunning, replica(t, "a")), pod("slipway-b", corev1.PodRunning, replica(t, "b")))
	f, err := New(t.Context(), Config{Kubernetes: config, Namespace: "kube-system", Selector: "app.kubernetes.io/name=slipway"})
	if err != nil {
		t.Fatal(err)
	}
	f.looks = 10 * time.Millisecond
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: f.DialContext}}
	ask := func() string {
		answer, err := client.Get("http://slipway-launcher/api/v1/nodes")
		if err != nil {
			return "" // The connection ended below it.
		}
		defer func() { _ = answer.Body.Close() }()
		body, _ := io.ReadAll(answer.Body)
		return string(body)
	}
	until := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ask() != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("replica %s does not answer", want)
			}
		}
	}
	until("a")
	k.leader.Store(new("slipway-b_9f0a"))
	until("b")
	f.mu.Lock()
	open := f.open
	f.mu.Unlock()
	for _, leader := range []*string{nil, new("slipway-c_9f0a"), new("slipway-b_77aa")} {
		k.leader.Store(leader)
		if f.overtaken(t.Context(), open) {
			t.Errorf("the port-forward to the replica that led last ends while the Lease has %v", leader)
		}
	}
}

// What is missing is reported with what to do about it.
func TestNoLauncher(t *testing.T) {
	starting := pod("slipway-a", corev1.PodRunning, 8443)
	starting.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	for want, pods := range map[string][]corev1.Pod{
		"none with the labels app=slipway runs": {pod("slipway-a", corev1.PodPending, 8443)},
		"controller.api.enabled=true":           {pod("slipway-a", corev1.PodRunning, 0)},
		"no launcher serves it":                 {starting},
	} {
		config, _, _ := cluster(t, true, pods...)
		f, err := New(t.Context(), Config{Kubernetes: config, Namespace: "kube-system", Selector: "app=slipway"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.DialContext(t.Context(), "tcp", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Of several replicas the one that leads is chosen, by the name of its pod or of its node, and the first one where none is known to lead.
func TestTheLeaderIsChosen(t *testing.T) {
	host := pod("slipway-c", corev1.PodRunning, 8443)
	host.Spec.HostNetwork, host.Spec.NodeName = true, "ip-1"
	away := pod("slipway-d", corev1.PodRunning, 8443)
	away.Spec.NodeName = "ip-2"
	for identity, want := range map[string]string{
		"":                 "slipway-a",
		"slipway-b_9f0a":   "slipway-b",
		"ip-1_9f0a":        "slipway-c",
		"ip-2_9f0a":        "slipway-a", // Its name is not its node's.
		"slipway-e_9f0a":   "slipway-a", // It runs no more.
		"slipway-bc_9f0a":  "slipway-a",
		"slipway-e":        "slipway-a",
		"some other thing": "slipway-a",
	} {
		pods := []corev1.Pod{away, pod("slipway-b", corev1.PodRunning, 8443), host, pod("slipway-a", corev1.PodRunning, 8443), pod("slipway-e", corev1.PodSucceeded, 8443)}
		if got, _, err := choose(pods, Config{}, identity); err != nil || got.Name != want {
			t.Errorf("%q leads: %s (%v), want %s", identity, got.Name, err, want)
		}
	}
}
