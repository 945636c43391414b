// Package app is the command slipway-scheduler: kube-scheduler with slipway's plugins NodeLaunch and NodeReserve, its flags and its
// configuration file. A build of one's own adds plugins with WithPlugin: their filters are asked about planned nodes as well.
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // JSON log format
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/garbage"
	"github.com/slipway-k8s/slipway/plugin"
)

// resignWithin is how long the launcher may take to stop acting before the Lease is released.
const resignWithin = 2 * time.Second

// eventsRemembered is how many Events each writer of them counts together with later ones. The plugin does not repeat a pod's last Event.
const eventsRemembered = 128

// Option adds something to the scheduler.
type Option func(frameworkruntime.Registry) error

// WithPlugin adds a plugin of that name, as kube-scheduler's own option does: a profile enables it. Its PreFilter and Filter are also called
// for nodes that do not exist yet, from another goroutine than the scheduling cycle's.
func WithPlugin(name string, factory frameworkruntime.PluginFactory) Option {
	return func(registry frameworkruntime.Registry) error {
		if err := registry.Register(name, factory); err != nil {
			return fmt.Errorf("registering plugin %s: %w", name, err)
		}
		return nil
	}
}

// NewCommand returns the command.
func NewCommand(with ...Option) *cobra.Command {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use:   "slipway-scheduler",
		Short: "kube-scheduler that launches its own nodes",
		Long: `slipway-scheduler is kube-scheduler with the plugins NodeLaunch and NodeReserve. Enable them in a profile of
its configuration file (manifests/scheduler has samples); slipway-launcher must run beside it.`,
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return opts.ComponentGlobalsRegistry.Set()
		},
		RunE: func(*cobra.Command, []string) error {
			others := frameworkruntime.Registry{}
			for _, option := range with {
				if err := option(others); err != nil {
					return err
				}
			}
			return run(opts, others)
		},
	}
	verflag.AddFlags(opts.Flags.FlagSet("global"))
	globalflag.AddGlobalFlags(opts.Flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, 0)
	return cmd
}

// run runs the scheduler with slipway's plugins and the others.
func run(opts *options.Options, others frameworkruntime.Registry) error {
	verflag.PrintAndExitIfRequested()
	// In a large cluster most of what lives is caches. Collections took 8% of the scheduler's CPU there with kube-scheduler's 100 as GOGC.
	// In a small one with 15,000 pods that fit nowhere 64 MiB in place of 48 was 26 MiB more of memory, and 48 in place of 40 was 2 to 9.
	garbage.Keep(garbage.Limits{Bytes: 40 << 20, Share: 55, Most: 100})
	limit, err := memoryLimit()
	if err != nil {
		return err
	}
	garbage.Within(limit)
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	slipway, err := plugin.New(plugin.Options{Registerer: legacyregistry.Registerer()})
	if err != nil {
		return err
	}
	var plugins []app.Option
	for name, factory := range slipway.Registry() {
		plugins = append(plugins, app.WithPlugin(name, factory))
	}
	for name, factory := range others {
		plugins = append(plugins, app.WithPlugin(name, factory))
	}
	cc, sched, err := app.Setup(ctx, opts, plugins...)
	if err != nil {
		return err
	}
	// kube-scheduler's broadcaster, for its own Events, remembers each of 15,000 pods' for six minutes and drops what comes while a thousand wait.
	announcer, err := announce.NewFor(rest.AddUserAgent(rest.CopyConfig(cc.KubeConfig), "slipway-scheduler-events"), legacyregistry.Registerer(), eventsRemembered)
	if err != nil {
		return err
	}
	renounce := inherit(cc, slipway.IdentityPath())
	lease, err := preferLaunchers(cc, slipway.AwaitLauncher)
	if err != nil {
		return err
	}
	if err := slipway.Install(ctx, parts(cc, plugin.Scheduler{
		Scheduler: sched, OutOfTree: others, Recorder: announcer.Recorder("slipway"), Karpenter: announcer.Recorder("karpenter"),
	})); err != nil {
		return err
	}
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	go slipway.Run(ctx)
	another := make(chan struct{})
	go func() {
		if lease.awaitOther(ctx) {
			close(another)
		}
	}()
	go func() {
		awaitStop(another)
		if resign(slipway.Resign, renounce) {
			lease.resigned()
		}
		cancel()
	}()
	announced := make(chan error, 1)
	go func() { announced <- announcer.Run(ctx) }()
	err = app.Run(ctx, cc, sched)
	cancel()
	return errors.Join(err, <-announced)
}

// memoryLimit returns the container's memory in bytes, which the chart sets as the launcher's; 0 for none.
func memoryLimit() (int64, error) {
	text := os.Getenv("MEMORY_LIMIT")
	if text == "" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit < 0 {
		return 0, fmt.Errorf("MEMORY_LIMIT is %q: a number of bytes is expected", text)
	}
	return limit, nil
}

func parts(cc *schedulerconfig.CompletedConfig, s plugin.Scheduler) plugin.Scheduler {
	s.Profiles, s.Extenders = cc.ComponentConfig.Profiles, cc.ComponentConfig.Extenders
	if of := cc.ComponentConfig.PercentageOfNodesToScore; of != nil {
		s.PercentageOfNodesToScore = *of
	}
	s.Informers = cc.InformerFactory
	s.Client = cc.Client
	if cc.LeaderElection != nil {
		s.Identity = cc.LeaderElection.Lock.Identity()
		s.LeaseNamespace = cc.ComponentConfig.LeaderElection.ResourceNamespace
		s.LeaseName = cc.ComponentConfig.LeaderElection.ResourceName
	}
	return s
}

// awaitStop waits for a signal to stop, or until another replica is to lead. A second signal ends the process at once.
func awaitStop(another <-chan struct{}) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	left := 1
	select {
	case got := <-signals:
		klog.Background().Info("Stopping", "signal", got.String())
	case <-another:
		left = 2
		klog.Background().Info("Stopping: the launcher was not connected, and another replica is ready to lead")
	}
	go func() {
		for range left {
			<-signals
		}
		os.Exit(1)
	}()
}

// resign makes the launcher stop before the Lease is released: the next leader's launcher must not act at the same time. It reports whether the
// launcher has stopped, or does not run. Of one that does not answer in time that is not known: the Lease then expires, as it does when both are killed.
func resign(ask func(context.Context) error, renounce func()) bool {
	// The launcher never acts again for an identity that resigned: no process may continue with it, even if this one is killed now.
	renounce()
	ctx, done := context.WithTimeout(context.Background(), resignWithin)
	defer done()
	err := ask(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return ctx.Err() == nil
}
