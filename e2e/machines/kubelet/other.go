//go:build !linux

package kubelet

import (
	"context"
	"errors"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

var errNotLinux = errors.New("machines of kind kubelet need Linux; sim runs everywhere")

// Mode runs machines with real kubelets, on Linux.
type Mode struct{}

// New says that this system cannot.
func New(context.Context, Config) (*Mode, error) { return nil, errNotLinux }

// Run says that this system cannot.
func (*Mode) Run(context.Context) error { return errNotLinux }

// Machine says that this system cannot.
func (*Mode) Machine(context.Context, instance.Instance) error { return errNotLinux }

// Discard does nothing.
func (*Mode) Discard(instance.Instance) {}

// Boot says that this system cannot.
func Boot(context.Context, string) error { return errNotLinux }

// Check says that this system cannot.
func Check(context.Context) error { return errNotLinux }
