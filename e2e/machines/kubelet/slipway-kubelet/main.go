//go:build linux

// Command slipway-kubelet is Kubernetes' kubelet with hardware sizes given by flags: the CPUs, the memory and the disk of an
// EC2 instance type, instead of those of the host, which it shares with other machines. All else is the kubelet's own code.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	// The log format of component-base's configuration.
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
)

func main() {
	if err := run(genericapiserver.SetupSignalContext(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run does what kubelet's NewKubeletCommand does with flags and configuration file, and gives the kubelet its hardware
// sizes.
func run(ctx context.Context, args []string) error {
	var sizes hardware
	server, err := configuration(ctx, args, &sizes)
	if err != nil {
		return err
	}
	logs.InitLogs()
	if err := logsapi.ValidateAndApply(&server.Logging, utilfeature.DefaultFeatureGate); err != nil {
		return fmt.Errorf("logging: %w", err)
	}
	if err := validation.ValidateKubeletConfiguration(&server.KubeletConfiguration, utilfeature.DefaultFeatureGate); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	deps, err := app.UnsecuredDependencies(ctx, server, utilfeature.DefaultFeatureGate)
	if err != nil {
		return err
	}
	roots := []string{cm.NodeAllocatableRoot(server.CgroupRoot, server.CgroupsPerQOS, server.CgroupDriver)}
	found, err := cadvisor.New(klog.FromContext(ctx), cadvisor.NewImageFsInfoProvider(server.ContainerRuntimeEndpoint), server.RootDirectory,
		roots, cadvisor.UsingLegacyCadvisorStats(server.ContainerRuntimeEndpoint), server.LocalStorageCapacityIsolation)
	if err != nil {
		return fmt.Errorf("cAdvisor: %w", err)
	}
	deps.CAdvisorInterface = machine{found, sizes}
	return app.Run(ctx, server, deps, utilfeature.DefaultFeatureGate)
}

// configuration reads flags and file; flags win.
func configuration(ctx context.Context, args []string, sizes *hardware) (*options.KubeletServer, error) {
	config, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, err
	}
	flags, err := parse(args, config, sizes)
	if err != nil {
		return nil, err
	}
	if err := options.ValidateKubeletFlags(flags); err != nil {
		return nil, err
	}
	if flags.KubeletConfigFile != "" {
		loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, flags.KubeletConfigFile)
		if err != nil {
			return nil, err
		}
		if config, err = loader.Load(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", flags.KubeletConfigFile, err)
		}
		if _, err := parse(args, config, sizes); err != nil {
			return nil, err
		}
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(config.FeatureGates); err != nil {
		return nil, err
	}
	return &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}, nil
}

func parse(args []string, config *kubeletconfig.KubeletConfiguration, sizes *hardware) (*options.KubeletFlags, error) {
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags := options.NewKubeletFlags()
	flags.AddFlags(set)
	options.AddKubeletConfigFlags(set, config)
	sizes.addFlags(set)
	return flags, set.Parse(args)
}
