package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-k8s/slipway/launcher/leadership"
)

func TestUnanswered(t *testing.T) {
	resource := schema.GroupResource{Resource: "nodeclaims"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"done":                     {nil, false},
		"refused":                  {fmt.Errorf("creating: %w", apierrors.NewForbidden(resource, "a", errors.New("quota"))), false},
		"there already":            {apierrors.NewAlreadyExists(resource, "a"), false},
		"the server fails":         {apierrors.NewInternalError(errors.New("webhook")), false},
		"the server is busy":       {apierrors.NewTooManyRequests("busy", 1), true},
		"the server has no answer": {apierrors.NewTimeoutError("etcd", 1), true},
		"too late":                 {fmt.Errorf("creating: %w", context.DeadlineExceeded), true},
		"the lead was lost":        {leadership.ErrLost, true},
	} {
		if got := leadership.Unanswered(tc.err); got != tc.want {
			t.Errorf("%s: unanswered %t", name, got)
		}
	}
}

func TestRetryOnConflict(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodeclaims"}, "a", errors.New("modified"))
	cut := fmt.Errorf("patching: %w", context.Canceled)
	late := fmt.Errorf("patching: %w", context.DeadlineExceeded)
	for name, tc := range map[string]struct {
		answers []error
		want    error
	}{
		"done":                        {[]error{nil}, nil},
		"done after a conflict":       {[]error{conflict, nil}, nil},
		"cut off":                     {[]error{cut}, context.Canceled},
		"too late":                    {[]error{late}, context.DeadlineExceeded},
		"cut off after a conflict":    {[]error{conflict, cut}, conflict},
		"conflicts without end":       {[]error{conflict}, conflict},
		"what no repetition can mend": {[]error{errors.ErrUnsupported}, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := leadership.RetryOnConflict(func() error {
				calls++
				return tc.answers[min(calls, len(tc.answers))-1]
			})
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v after %d calls, want %v", err, calls, tc.want)
			}
		})
	}
}
