package demo

import (
	"context"
	"net"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/ui"
	"github.com/slipway-k8s/slipway/ui/local"
)

// servePage serves the page of slipway ui until the context ends. launcher is the URL of the page at the launcher. It returns the page's address, and a
// channel that receives the end of the page's server.
func servePage(ctx context.Context, user *rest.Config, launcher string) (string, <-chan error, error) {
	config, err := local.At(user, strings.TrimSuffix(launcher, ui.Path))
	if err != nil {
		return "", nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- local.Serve(ctx, listener, config) }()
	return "http://" + listener.Addr().String() + ui.Path, ended, nil
}
