package terminate_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/evict"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

// wired sends evictions to an API server as client-go does, and has all else in memory.
type wired struct {
	client.Client
	wire client.Client
}

func (c wired) SubResource(name string) client.SubResourceClient { return c.wire.SubResource(name) }

// evictions is an API server that has been asked to evict pods, in this order. It says of one of them that its budget's status is out of date.
type evictions struct {
	w     *world
	asked []string
}

// RoundTrip implements http.RoundTripper.
func (e *evictions) RoundTrip(r *http.Request) (*http.Response, error) {
	name := path.Base(path.Dir(r.URL.Path))
	e.asked = append(e.asked, name)
	out := httptest.NewRecorder()
	out.Header().Set("Content-Type", "application/json")
	status := metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
	if name == "outdated" {
		status = apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10).ErrStatus
		out.Header().Set("Retry-After", "10")
	} else if err := e.w.api.Delete(r.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
		return nil, err
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	out.WriteHeader(int(status.Code))
	if err := json.NewEncoder(out).Encode(status); err != nil {
		return nil, err
	}
	return out.Result(), nil
}

// A pod whose PodDisruptionBudget the API server has not processed, and never will, holds up no other pod of its node.
func TestOutdatedBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		server := &evictions{w: w}
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
		config := &rest.Config{Host: "http://api", Transport: server}
		config.Wrap(evict.Transport)
		wire, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		w.subject, err = terminate.New(terminate.Config{
			Client: wired{w.cached(), wire}, Pods: index.ListPods(w.cached()), Reader: w.api, Cloud: tracedCloud{w}, Asker: w, Guard: leadershiptest.Always{},
			Events: w, Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.addClaim(ctx, &datadriven.TestData{})
		for _, name := range []string{"outdated", "web-1", "web-2"} {
			w.addPod(ctx, &datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: name}, {Key: "owned"}}})
		}
		w.begin(ctx, &datadriven.TestData{Cmd: "begin"}, string(cloud.SpotInterrupted))
		start := time.Now()
		for len(server.asked) < 5 && time.Since(start) < 2*time.Minute {
			w.tick(ctx)
		}
		cancel()
		synctest.Wait()
		if want := []string{"outdated", "web-1", "web-2", "outdated", "outdated"}; !slices.Equal(server.asked, want) {
			t.Errorf("the API server was asked to evict %v, want %v", server.asked, want)
		}
		if took := time.Since(start); took >= 10*time.Second {
			t.Errorf("it took %s, as long as the API server says", took)
		}
	})
}
