package machines

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// kubeletClient is the client of one light machine. It has the two groups of the API that a kubelet writes to; a whole client would be
// hundreds of times its size. All other methods panic.
type kubeletClient struct {
	kubernetes.Interface
	core         *corev1.CoreV1Client
	coordination *coordinationv1.CoordinationV1Client
}

// CoreV1 returns the client of pods, Nodes and Events.
func (c kubeletClient) CoreV1() corev1.CoreV1Interface { return c.core }

// CoordinationV1 returns the client of Leases.
func (c kubeletClient) CoordinationV1() coordinationv1.CoordinationV1Interface { return c.coordination }

// sharedClients returns a function that makes the client of a kubelet's node. All of them share the admin's connections, by which each acts
// as its kubelet.
func sharedClients(admin *rest.Config) (func(node string) (kubernetes.Interface, error), error) {
	shared, err := rest.TransportFor(admin)
	if err != nil {
		return nil, err
	}
	return func(node string) (kubernetes.Interface, error) {
		as := impersonating(admin, node).Impersonate
		client := &http.Client{Transport: transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{UserName: as.UserName, Groups: as.Groups}, shared)}
		core, err := corev1.NewForConfigAndClient(admin, client)
		if err != nil {
			return nil, fmt.Errorf("making the client of %s: %w", as.UserName, err)
		}
		coordination, err := coordinationv1.NewForConfigAndClient(admin, client)
		if err != nil {
			return nil, fmt.Errorf("making the client of %s: %w", as.UserName, err)
		}
		return kubeletClient{core: core, coordination: coordination}, nil
	}, nil
}
