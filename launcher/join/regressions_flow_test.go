package join_test

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-k8s/slipway/launcher/join"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Bindings are reported before the claim's status is written, which may fail with a conflict: an initialized claim is not reconciled again.
func TestBindingsAreReportedBeforeTheStatus(t *testing.T) {
	w := newWorld(t)
	w.claim(0, "web")
	config := w.config()
	config.Client = interceptor.NewClient(w.api, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errBusy
		},
	})
	c, err := join.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.looks(c, 1)
	if _, err := w.look(c); !errors.Is(err, errBusy) {
		t.Fatalf("error %v, want that of the status", err)
	}
	if _, told, err := record.BindingOf(w.current(), "default", "web"); err != nil || !told {
		t.Errorf("told: %t, error %v", told, err)
	}
}
