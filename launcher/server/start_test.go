package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/server"
)

// silent is a cloud that does not return instance types.
type silent struct{}

// InstanceTypes implements server.Offers.
func (silent) InstanceTypes(ctx context.Context, _ *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Changed implements server.Offers.
func (silent) Changed() <-chan struct{} { return make(chan struct{}) }

// What needs only Kubernetes does not wait for AWS: a launcher that starts while AWS does not answer serves the scheduler within seconds. Its NodePools
// launch nothing until the instance types are known.
func TestServesWithoutInstanceTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := idleWorld(t, func(c client.WithWatch) client.Client { return c }, nil, ready("default", nil)...)
		w.config.Offers = silent{}
		subject, err := server.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		// Time stands still in the test while the server waits for a connection, so that it cannot be polled for.
		served := make(chan struct{})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), funcr.New(func(_, line string) {
			if strings.Contains(line, "Serving the scheduler") {
				close(served)
			}
		}, funcr.Options{})))
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- subject.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		select {
		case <-served:
		case <-time.After(15 * time.Second):
			t.Fatalf("no socket is served %v after the start", time.Since(began))
		}
		w.client = w.dial()
		if _, err := w.client.Lead(t.Context(), &api.LeadRequest{Identity: "a", LeaseNamespace: "kube-system", LeaseName: "slipway-scheduler"}); err != nil {
			t.Error(err)
		}
		stream, err := w.client.WatchCatalog(t.Context(), &api.WatchCatalogRequest{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		const want = "the instance types of EC2NodeClass default are not loaded yet"
		if pools := first.GetNodePools(); len(pools) != 1 || pools[0].GetReady() || pools[0].GetNotReadyMessage() != want || !first.GetFull() {
			t.Errorf("the first message is %v, want %q", first, want)
		}
	})
}
