package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/sandbox/control"
	"github.com/slipway-k8s/slipway/ui"
)

func newUpCommand(name *string) *cobra.Command {
	var cfg sandbox.Config
	var interruptions, gates string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a sandbox and keep it running until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.SpotInterruptionsPerHour, err = parseRate(interruptions); err != nil {
				return err
			}
			if cfg.BinDir == "" {
				if cfg.BinDir, err = ownFolder(); err != nil {
					return err
				}
			}
			cfg.Name = *name
			if gates != "" {
				cfg.LauncherArgs = []string{"--feature-gates=" + gates}
			}
			if cfg.AWSEndpoint != "" && !cmd.Flags().Changed("managed-nodes") {
				// Only the sandbox's own AWS launches EKS's own nodes.
				cfg.ManagedNodes = 0
			}
			return up(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.KubeconfigPath, "kubeconfig", "", "write the kubeconfig to this file, which must not exist (default in the sandbox's folder)")
	flags.StringVar(&cfg.AWSListen, "aws-listen", "", "address that AWS listens on (default a free port on loopback)")
	flags.StringVar(&cfg.AWSEndpoint, "aws-endpoint", "", "URL of another AWS to stand on, such as LocalStack's or moto's (default the sandbox's own)")
	flags.StringVar(&cfg.IPFamily, "ip-family", sandbox.IPv4, "IP family of the cluster: ipv4 or ipv6")
	flags.StringVar(&cfg.Machines, "machines", "sim", "machines behind the instances: sim (simulated kubelets), light (thousands of them) or kubelet (real ones, on Linux as root)")
	cfg.Speed = 1
	flags.Var((*speed)(&cfg.Speed), "speed", "divide the delays of AWS and of machines by this")
	flags.Int32Var(&cfg.NodeSyncs, "concurrent-node-syncs", 1, "Nodes that the cloud controller initializes at a time")
	flags.IntVar(&cfg.ManagedNodes, "managed-nodes", 1, "nodes of an EKS managed node group")
	flags.BoolVar(&cfg.Addons, "addons", true, "run what EKS runs in every cluster: aws-node, kube-proxy, coredns")
	flags.StringVar(&interruptions, "spot-interruptions", "0/h", "spot instances that AWS takes away per hour, such as 6/h")
	flags.StringVar(&gates, "feature-gates", "", "the launcher's feature gates, such as CapacityBuffer=true,NodeOverlay=true")
	flags.StringVar(&cfg.BinDir, "bin-dir", "", "folder of slipway-scheduler and slipway-launcher (default that of this program)")
	flags.StringVar(&cfg.EmulatedVersion, "emulated-version", "", "Kubernetes version that the control plane emulates, such as 1.35")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "seed of prices, ids and delays")
	return cmd
}

// ownFolder returns the folder of this program and its siblings.
func ownFolder() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

// parseRate parses a number per hour, such as 6/h or 6.
func parseRate(text string) (float64, error) {
	rate, err := strconv.ParseFloat(strings.TrimSuffix(text, "/h"), 64)
	if err != nil || rate < 0 {
		return 0, fmt.Errorf("--spot-interruptions %q: want a number per hour, such as 6/h", text)
	}
	return rate, nil
}

// up runs a sandbox until ctx ends, one of its parts ends, or the reader of out closes it.
func up(ctx context.Context, cfg sandbox.Config, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	say := func(text string) {
		if _, err := fmt.Fprintln(out, text); err != nil {
			cancel()
		}
	}
	cfg.Progress = say
	cfg.Notice = func(text string) { say(time.Now().Format(time.TimeOnly) + " " + text) }
	begin := time.Now()
	sb, err := sandbox.Start(ctx, cfg)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("\nReady after %.1f s. %s", time.Since(begin).Seconds(), usage(sb)))
	select {
	case <-ctx.Done():
		say("stopping")
	case <-sb.Failed():
	}
	failure := sb.Err()
	return errors.Join(failure, sb.Stop())
}

// slipway returns the path of the command line beside this program.
func slipway() string { return filepath.Join(filepath.Dir(os.Args[0]), "slipway") }

// pageCommand returns the command that serves the page of the sandbox's launcher.
func pageCommand(sb *sandbox.Sandbox) string {
	return fmt.Sprintf("%s ui --kubeconfig %s --api %s --open", slipway(), sb.KubeconfigPath(), strings.TrimSuffix(sb.LauncherURL(ui.Path), ui.Path))
}

// usage returns the lines to paste.
func usage(sb *sandbox.Sandbox) string {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	self := os.Args[0]
	if sb.Name() != control.DefaultName {
		self += " --sandbox " + sb.Name()
	}
	line("Ctrl-C ends it and leaves nothing. In another terminal:")
	line("")
	line("  export KUBECONFIG=%s", sb.KubeconfigPath())
	line("  kubectl apply -f %s", sb.SamplesPath())
	line("  kubectl scale deployment inflate --replicas 20")
	line("  %s top", slipway())
	line("  %s explain pod NAME", slipway())
	line("  %s", pageCommand(sb))
	line("")
	line("  export %s", strings.Join(sb.AWSVariables(), " "))
	line("  aws --endpoint-url $AWS_ENDPOINT_URL ec2 describe-instances --query 'Reservations[].Instances[].[InstanceId,InstanceType,State.Name]' --output table")
	line("")
	if sb.AWS() != nil {
		line("  %s aws instances", self)
		line("  %s aws interrupt --one-spot", self)
	}
	line("  %s kill launcher", self)
	line("")
	line("Logs are in %s", sb.Folder())
	return strings.TrimSpace(text.String())
}
