package controlplane

import (
	"context"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"

	"github.com/slipway-k8s/slipway/e2e/part"
)

// startControllers starts kube-controller-manager. Each controller has its own service account, as in a real cluster. It
// does not wait: the controllers' effects show in the objects.
func (cp *ControlPlane) startControllers(ctx context.Context, in Config) error {
	kubeconfig, err := cp.KubeConfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	path := cp.authority.path("controller-manager.kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return err
	}
	opts, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	for _, set := range opts.Flags(known, disabled, aliases).FlagSets {
		flags.AddFlagSet(set)
	}
	args := cp.controllerFlags(path)
	if in.NodeGrace > 0 {
		args = append(args, "--node-monitor-grace-period="+in.NodeGrace.String())
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	// The event broadcaster ends with this context, so it must not be that of the start.
	cfg, err := opts.Config(context.WithoutCancel(ctx), known, disabled, aliases)
	if err != nil {
		return err
	}
	completed := cfg.Complete()
	cp.controllers = part.Start(ctx, "kube-controller-manager", func(ctx context.Context) error {
		return app.Run(ctx, completed)
	}, cp.fail)
	return nil
}

func (cp *ControlPlane) controllerFlags(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--tls-cert-file=" + cp.authority.path("server.crt"),
		"--tls-private-key-file=" + cp.authority.path("server.key"),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + cp.authority.path("sa.key"),
		"--root-ca-file=" + cp.authority.path("ca.crt"),
		"--cluster-signing-cert-file=" + cp.authority.path("ca.crt"),
		"--cluster-signing-key-file=" + cp.authority.path("ca.key"),
		"--allocate-node-cidrs=false",
		"--controller-shutdown-timeout=3s",
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
		"--concurrent-replicaset-syncs=10",
		"--concurrent-deployment-syncs=10",
	}
}

// forgetControllers removes what kube-controller-manager leaves in globals of the process, so that it can start again.
func forgetControllers() { configz.Delete(app.ConfigzName) }
