package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
	"github.com/slipway-k8s/slipway/ui"
	"github.com/slipway-k8s/slipway/ui/forward"
	"github.com/slipway-k8s/slipway/ui/local"
	"github.com/slipway-k8s/slipway/ui/pause"
	"github.com/slipway-k8s/slipway/ui/planner"
	"github.com/slipway-k8s/slipway/ui/reply"
)

// usualPort is where the page is served unless another program has the port: links to its views stay valid.
const usualPort = 8844

// uiFlags are those of the command ui.
type uiFlags struct {
	api, namespace, selector string
	port                     uint16
	open                     bool
	// plans has what the page's own questions are planned with.
	plans simulation
}

// newUI returns the command ui.
func newUI(o *options) *cobra.Command {
	var f uiFlags
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a page with slipway's nodes, the bill and pending pods on this machine",
		Long: `Serve a page with slipway's nodes, the bill and pending pods on this machine, until Ctrl-C.

The page asks the launcher's API (helm value controller.api.enabled) through a port-forward, with your kubeconfig's identity: it shows what your rights
in the cluster allow. It listens on 127.0.0.1 alone.

Edits that help pending pods, what-if questions and the lower bound are planned by this command, as slipway simulate --from-cluster does, at the
launcher's prices unless --aws or --prices names others. These flags and those of the planner are those of slipway simulate.`,
		Example: `  slipway ui
  slipway ui --open --port 9000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.serveUI(cmd, &f)
		},
	}
	flags := cmd.Flags()
	flags.Uint16Var(&f.port, "port", 0, fmt.Sprintf("port of the page (default %d, or a free one)", usualPort))
	flags.BoolVar(&f.open, "open", false, "open the page in the browser")
	flags.StringVar(&f.namespace, "slipway-namespace", slipwayNamespace, "namespace that slipway runs in")
	flags.StringVar(&f.selector, "selector", "app.kubernetes.io/name=slipway", "labels of slipway's pods")
	flags.StringVar(&f.api, "api", "", "URL of the launcher's API, such as https://127.0.0.1:8443, instead of a port-forward")
	f.plans.addPlanFlags(flags)
	return cmd
}

// serveUI serves the page until the command is interrupted.
func (o *options) serveUI(cmd *cobra.Command, f *uiFlags) error {
	ctx := cmd.Context()
	config, err := o.launcherAPI(ctx, *f)
	if err != nil {
		return err
	}
	if config.Own, err = o.ownAnswers(ctx, config, f); err != nil {
		return err
	}
	listener, err := listen(ctx, f.port)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://%s%s", listener.Addr(), ui.Path)
	fmt.Fprintf(cmd.OutOrStdout(), "slipway's page is at %s\nCtrl-C ends it.\n", url)
	if f.open {
		if err := openBrowser(ctx, url); err != nil {
			cmd.PrintErrf("The browser could not be started: %v\n", err)
		}
	}
	return local.Serve(ctx, listener, config)
}

// ownAnswers returns what the command itself answers, with the user's kubeconfig. Plans are made at the prices of flags, or else at the launcher's.
func (o *options) ownAnswers(ctx context.Context, launcher local.Config, f *uiFlags) (http.Handler, error) {
	f.plans.known = known{reader: o.client, namespace: f.namespace}
	fixed, err := f.plans.planner(ctx)
	if err != nil {
		return nil, err
	}
	prices := f.plans.launcherMarket(launcher, fixed)
	if f.plans.fromAWS || f.plans.prices != "" {
		prices = func(context.Context) (*market.Market, error) { return fixed, nil }
	}
	c, _, err := o.client()
	if err != nil {
		return nil, err
	}
	plans, err := planner.New(planner.Config{
		Objects: o.clusterObjects, Market: prices, Options: f.plans.options,
		Buffers: func(ctx context.Context) (view.BufferReport, error) { return bufferReport(ctx, c, f.namespace) },
	})
	if err != nil {
		return nil, err
	}
	pauses, err := pause.New(c)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	plans.Register(mux)
	pauses.Register(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		reply.Refuse(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "the command answers nothing at "+r.URL.Path, 0, false))
	})
	return mux, nil
}

// launcherAPI returns how the launcher is reached. Through a port-forward it is looked for at once, so that a cluster without its API is reported here.
func (o *options) launcherAPI(ctx context.Context, f uiFlags) (local.Config, error) {
	user, _, err := o.connection()
	if err != nil {
		return local.Config{}, err
	}
	if f.api != "" {
		return local.At(user, f.api)
	}
	forwarder, err := forward.New(ctx, forward.Config{Kubernetes: user, Namespace: f.namespace, Selector: f.selector})
	if err != nil {
		return local.Config{}, err
	}
	first, err := forwarder.DialContext(ctx, "tcp", "")
	if err != nil {
		return local.Config{}, err
	}
	_ = first.Close() // It was for the error alone.
	return local.Forwarded(user, forwarder.DialContext)
}

// listen listens on a port of loopback; 0 means the usual one, or a free one while another program has it.
func listen(ctx context.Context, port uint16) (net.Listener, error) {
	at := func(port uint16) (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	}
	if port != 0 {
		return at(port)
	}
	listener, err := at(usualPort)
	if errors.Is(err, syscall.EADDRINUSE) {
		return at(0)
	}
	return listener, err
}

// openBrowser starts the user's browser.
func openBrowser(ctx context.Context, url string) error {
	if runtime.GOOS == "darwin" {
		return exec.CommandContext(ctx, "open", url).Start()
	}
	return exec.CommandContext(ctx, "xdg-open", url).Start()
}
