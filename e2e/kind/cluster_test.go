package kind_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/kind/nodes"
	"github.com/slipway-k8s/slipway/e2e/machines"
	"github.com/slipway-k8s/slipway/e2e/part"
)

const (
	// network is the VPC of the sandbox's AWS: an instance's address is its container's.
	network, subnet, low, gateway = "slipway-e2e", "192.168.0.0/16", "192.168.0.0/20", "192.168.0.1"
	// clusterName is what AWS and user data call the cluster.
	clusterName = "slipway"
	// serviceCIDR is that of cluster.yaml.
	serviceCIDR = "10.96.0.0/16"
	// publishedImage is kind's own of the version of Kubernetes that is tested.
	publishedImage = "kindest/node:v1.36.3"
)

// cluster is a cluster of kind's with an AWS beside it.
type cluster struct {
	name, kubeconfig string
	rest             *rest.Config
	client           client.Client
	aws              *aws.Server
}

// kind runs the command that `make kind-image` built, or the one that is installed.
func (c *cluster) kind(ctx context.Context, args ...string) error {
	name := filepath.Join(os.Getenv("SLIPWAY_KIND_DIR"), "bin", "kind")
	if _, err := os.Stat(name); err != nil {
		name = "kind"
	}
	out, err := run(ctx, nil, name, args...)
	fmt.Fprint(os.Stderr, out)
	return err
}

// newCluster makes a cluster without CRDs; it and its instances are gone when the test ends.
func newCluster(t *testing.T, name string) *cluster {
	t.Helper()
	c := &cluster{name: name, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			c.explain(ctx, t)
		}
		if err := c.kind(ctx, "delete", "cluster", "--name", name); err != nil {
			t.Error(err)
		}
	})
	if err := c.kind(t.Context(), "create", "cluster", "--name", name, "--image", os.Getenv(imageVariable), "--config", "cluster.yaml", "--kubeconfig", c.kubeconfig, "--wait", "5m", "--retain"); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"slipway-scheduler", "slipway-launcher"} {
		if err := c.kind(t.Context(), "load", "image-archive", archive(program), "--name", name); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.rest, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	// Karpenter's API packages register their types there.
	if c.client, err = client.New(c.rest, client.Options{Scheme: scheme.Scheme}); err != nil {
		t.Fatal(err)
	}
	c.startAWS(t)
	return c
}

// controlPlane is the name of the container that is the control plane.
func (c *cluster) controlPlane() string { return c.name + "-control-plane" }

// file of the control plane.
func (c *cluster) file(t *testing.T, path string) []byte {
	t.Helper()
	return []byte(docker(t, nil, "exec", c.controlPlane(), "cat", path))
}

// kubectl is the control plane's, as an administrator; it returns what the command prints.
func (c *cluster) kubectl(t *testing.T, input []byte, args ...string) string {
	t.Helper()
	return docker(t, input, append([]string{"exec", "-i", c.controlPlane(), "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
}

func (c *cluster) apply(t *testing.T, documents string) {
	t.Helper()
	c.kubectl(t, []byte(documents), "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// startAWS serves an AWS on the network of the nodes, whose instances are containers there.
func (c *cluster) startAWS(t *testing.T) {
	t.Helper()
	address := strings.TrimSpace(docker(t, nil, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", c.controlPlane()))
	endpoint := "https://" + net.JoinHostPort(address, "6443")
	authority := c.file(t, "/etc/kubernetes/pki/ca.crt")
	server, err := aws.New(aws.Config{Listen: net.JoinHostPort(gateway, "0"), ClusterName: clusterName, ServiceCIDR: serviceCIDR, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	server.SetCluster(endpoint, authority)
	c.aws = server
	signer, err := nodes.NewAuthority(authority, c.file(t, "/etc/kubernetes/pki/ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	mode, err := nodes.New(nodes.Config{
		Image: os.Getenv(imageVariable), Network: network, KindCluster: c.name,
		Cluster: clusterName, Endpoint: endpoint, Authority: signer,
	})
	if err != nil {
		t.Fatal(err)
	}
	failed := func(err error) { t.Errorf("a part ended: %v", err) }
	// What stops last is what the others need.
	for _, p := range []*part.Part{
		part.Start(context.Background(), "AWS", server.Run, failed),
		part.Start(context.Background(), "machines", machines.WithMode(mode, machines.FromAWS(server)).Run, failed),
	} {
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// explain prints what is there when a test fails.
func (c *cluster) explain(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "nodeclaims,nodes,pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by", ".lastTimestamp"},
		{"logs", "-n", "kube-system", "-l", "app.kubernetes.io/name=slipway", "--all-containers", "--tail", "60"},
	} {
		out, err := run(ctx, nil, "docker", append([]string{"exec", c.controlPlane(), "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
