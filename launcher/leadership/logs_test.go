package leadership_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// An API server that is away for minutes is two lines of the log, and not one for each look.
func TestAwayAPIServerIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
				if time.Since(begun) < 10*time.Minute {
					return errors.New("connection refused")
				}
				return c.Get(ctx, key, obj, options...)
			},
		})
		subject, err := leadership.New(leadership.Config{Reader: api})
		if err != nil {
			t.Fatal(err)
		}
		if err := subject.Lead("me", namespace, name); err != nil {
			t.Fatal(err)
		}
		var lines []string
		logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), 11*time.Minute)
		defer cancel()
		if err := subject.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(lines) != 2 || !strings.Contains(lines[0], "connection refused") || !strings.Contains(lines[1], "again") {
			t.Errorf("%d lines: %q", len(lines), lines)
		}
	})
}
