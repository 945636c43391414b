// Command slipway-launcher is the sidecar of slipway-scheduler: it creates the nodes that the scheduler's plugin plans, binds their pods,
// and manages the rest of a node's life.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // JSON log format
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slipway-k8s/slipway/internal/garbage"
	"github.com/slipway-k8s/slipway/internal/karpenterlog"
	"github.com/slipway-k8s/slipway/launcher"
	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/aws/committed"
	"github.com/slipway-k8s/slipway/launcher/aws/spotscore"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

func main() {
	syscall.Umask(0o077) // What it makes, its socket above all, is for its own user alone.
	// What lives in a small cluster is collected so fast that half as much garbage comes several times a second while nodes are launched. In a large one it is
	// caches, and the launcher mostly waits. 64 MiB in place of 32 made both processes larger than Karpenter and a kube-scheduler with 300 pods. With half of
	// what lives, collections were a fifth to a third of the launcher's CPU with 5,000 nodes; this is three quarters there.
	garbage.Keep(garbage.Limits{Bytes: 32 << 20, Share: 85, Most: 200})
	if err := karpenterlog.Register(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cmd, _ := command()
	os.Exit(cli.Run(cmd))
}

// flags holds the command line's overrides of file and environment.
type flags struct {
	file, kubeconfig, bindAt string
	settings                 launcher.Settings
	logs                     *logsapi.LoggingConfiguration
}

// command returns the command, and the flags that it parses into.
func command() (*cobra.Command, *flags) {
	f := &flags{settings: launcher.Defaults(), logs: logsapi.NewLoggingConfiguration()}
	cmd := &cobra.Command{
		Use:   "slipway-launcher",
		Short: "Create the nodes that slipway-scheduler plans, and own their life",
		Long: `slipway-launcher runs beside slipway-scheduler in one Pod. It reads its settings from a file (--config), then from the
environment variables that Karpenter reads, then from flags; the later one wins. AWS credentials and region come from the
SDK's usual places.`,
		Args:    cobra.NoArgs,
		Version: version.Get().GitVersion,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	s, set := &f.settings, cmd.Flags()
	set.StringVar(&f.file, "config", "", "path of the configuration file")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "path of a kubeconfig file (default: the Pod's service account)")
	set.StringVar(&s.Socket, "socket", s.Socket, "path of the unix socket that the scheduler connects to")
	set.StringVar(&s.ClusterName, "cluster-name", s.ClusterName, "name of the EKS cluster (CLUSTER_NAME)")
	set.StringVar(&s.ClusterEndpoint, "cluster-endpoint", s.ClusterEndpoint, "API server URL for nodes; if empty, EKS is asked (CLUSTER_ENDPOINT)")
	set.StringVar(&s.ClusterCABundle, "cluster-ca-bundle", s.ClusterCABundle, "certificate authority for nodes, PEM in base64; if empty, EKS is asked (CLUSTER_CA_BUNDLE)")
	set.StringVar(&s.KubernetesVersion, "kubernetes-version", s.KubernetesVersion, "Kubernetes version of AMI aliases, such as 1.36; empty asks EKS or the API server")
	set.StringVar(&s.ServiceCIDR, "service-cidr", s.ServiceCIDR, "range of Services for nodes, IPv6 in an IPv6 cluster; if empty, EKS or the API server is asked")
	set.StringVar(&s.MinValuesPolicy, "min-values-policy", s.MinValuesPolicy, "Strict or BestEffort: fail or launch a claim whose minValues cannot be kept (MIN_VALUES_POLICY)")
	set.StringVar(&s.InterruptionQueue, "interruption-queue", s.InterruptionQueue, "name of the SQS queue with EC2's events (INTERRUPTION_QUEUE)")
	set.BoolVar(&s.IsolatedVPC, "isolated-vpc", s.IsolatedVPC, "use the built-in on-demand prices: the Price List API cannot be reached (ISOLATED_VPC)")
	set.BoolVar(&s.EnableZonalShift, "enable-zonal-shift", s.EnableZonalShift, "launch and terminate nothing in zones that the cluster's zonal shifts are away from (ENABLE_ZONAL_SHIFT)")
	set.Float64Var(&s.VMMemoryOverheadPercent, "vm-memory-overhead-percent", s.VMMemoryOverheadPercent, "share of memory taken to be lost until a node has reported (VM_MEMORY_OVERHEAD_PERCENT)")
	set.IntVar(&s.ReservedENIs, "reserved-enis", s.ReservedENIs, "network interfaces that pods get no addresses of (RESERVED_ENIS)")
	set.DurationVar(&s.AMIRefreshInterval.Duration, "ami-refresh-interval", s.AMIRefreshInterval.Duration, "how long EC2's answer about AMIs is believed (AMI_REFRESH_INTERVAL)")
	set.DurationVar(&s.SubnetRefreshInterval.Duration, "subnet-refresh-interval", s.SubnetRefreshInterval.Duration, "how long EC2's answer about subnets is believed (SUBNET_REFRESH_INTERVAL)")
	set.StringVar(&f.bindAt, "bind-at", string(s.BindAt), "when promised pods are bound: auto, launch, ready or never")
	set.DurationVar(&s.JoinDeadline.Duration, "join-deadline", s.JoinDeadline.Duration, "how long a node that was launched for pods may take to become Ready")
	set.DurationVar(&s.EmptyJoinDeadline.Duration, "empty-join-deadline", s.EmptyJoinDeadline.Duration, "the same for any other node, and for bare metal and Windows")
	set.StringVar(&s.FeatureGates, "feature-gates", s.FeatureGates, "Karpenter's feature gates, such as NodeRepair=true (FEATURE_GATES)")
	set.DurationVar(&s.ExpiryWindow.Duration, "expiry-window", s.ExpiryWindow.Duration, "how long before its expireAfter is over a node may be replaced within the budgets, a tenth of expireAfter at most")
	set.DurationVar(&s.ConsolidationPeriod.Duration, "consolidation-period", s.ConsolidationPeriod.Duration, "how often it is decided which nodes to give up, where something has changed")
	set.DurationVar(&s.ConsolidationPayback.Duration, "consolidation-payback", s.ConsolidationPayback.Duration, "how soon a move must have earned what it costs")
	set.Float64Var(&s.ConsolidationMinSaving, "consolidation-min-saving", s.ConsolidationMinSaving, "the least that a move has to save, in USD per hour")
	set.DurationVar(&s.ConsolidationNodeAge.Duration, "consolidation-node-age", s.ConsolidationNodeAge.Duration, "how long a node is left alone after it was bought")
	set.DurationVar(&s.ConsolidationPodAge.Duration, "consolidation-pod-age", s.ConsolidationPodAge.Duration, "how long pods have to have run to be moved almost as readily as old ones: at this age, moving one counts twice")
	set.BoolVar(&s.DisruptBarePods, "disrupt-bare-pods", s.DisruptBarePods, "pods without a controller do not keep their node: they end with it and nothing creates them again")
	set.StringVar(&s.CommitmentsConfigMap, "commitments-config-map", s.CommitmentsConfigMap, "NAMESPACE/NAME of the ConfigMap with Savings Plans and Reserved Instances")
	set.BoolVar(&s.CommitmentsFromAWS, "commitments-from-aws", s.CommitmentsFromAWS, "read the account's Savings Plans and Reserved Instances from AWS as well")
	set.Float64Var(&s.CommitmentShare, "commitment-share", s.CommitmentShare, "share of each Savings Plan and of Reserved Instances that this cluster may use, above 0 to 1")
	set.StringVar(&s.BillNamespace, "bill-namespace", s.BillNamespace, "namespace of the ConfigMaps with the records of what nodes cost, of decisions and of the commitments that AWS returned last; 0 records nothing")
	set.Float64Var(&s.InterruptionCost, "interruption-cost", s.InterruptionCost, "what a pod costs whose spot node EC2 takes back, in USD; 0 leaves expected interruptions out of the cost of nodes")
	set.StringVar(&s.InterruptionsConfigMap, "interruptions-config-map", s.InterruptionsConfigMap, "NAMESPACE/NAME of the ConfigMap with what was learned of spot interruptions")
	set.BoolVar(&s.SpotPlacementScores, "spot-placement-scores", s.SpotPlacementScores, "ask EC2 for spot placement scores: offerings of a low score are expected to be interrupted more often")
	set.BoolVar(&s.IgnoreDRARequests, "ignore-dra-requests", s.IgnoreDRARequests, "initialize nodes without the devices that were planned for resource claims (IGNORE_DRA_REQUESTS)")
	set.StringVar(&s.HandoverSelector, "handover-selector", s.HandoverSelector, "label selector of the NodePools that are slipway's although a live Karpenter runs")
	set.IntVar(&s.KubeClientQPS, "kube-client-qps", s.KubeClientQPS, "requests per second to the API server")
	set.IntVar(&s.KubeClientBurst, "kube-client-burst", s.KubeClientBurst, "requests in a burst to the API server")
	set.StringVar(&s.MetricsAddress, "metrics-address", s.MetricsAddress, "address that serves /metrics; 0 serves none")
	set.BoolVar(&s.MetricsAuthentication, "metrics-authentication", s.MetricsAuthentication, "serve /metrics with TLS, to clients that the API server lets get the URL /metrics")
	set.StringVar(&s.MetricsCertDir, "metrics-cert-dir", s.MetricsCertDir, "folder with tls.crt and tls.key of /metrics; if empty, a certificate is made at each start")
	set.StringVar(&s.APIAddress, "api-address", s.APIAddress, "address that serves the API, with TLS; 0 serves none")
	set.StringVar(&s.APICertDir, "api-cert-dir", s.APICertDir, "folder with tls.crt and tls.key of the API; if empty, a certificate is made at each start")
	set.BoolVar(&s.EnableProfiling, "enable-profiling", s.EnableProfiling, "serve Go's profiles at /debug/pprof beside /metrics (ENABLE_PROFILING)")
	set.StringVar(&s.LogOutputPaths, "log-output-paths", s.LogOutputPaths, "where the log goes: stdout, stderr and files, separated by commas (LOG_OUTPUT_PATHS)")
	set.Int64Var(&s.MemoryLimit, "memory-limit", s.MemoryLimit, "the container's memory in bytes: garbage is collected more often from nine tenths of it on (MEMORY_LIMIT)")
	set.StringVar(&s.HealthProbeAddress, "health-probe-address", s.HealthProbeAddress, "address that serves /healthz and /readyz; 0 serves none")
	logsapi.AddFlags(f.logs, set)
	return cmd, f
}

func (f *flags) run(cmd *cobra.Command) error {
	settings, err := f.effective(cmd)
	if err != nil {
		return err
	}
	cmd.SilenceUsage = true
	if err := f.log(settings.LogOutputPaths); err != nil {
		return err
	}
	garbage.Within(settings.MemoryLimit)
	logger := klog.Background()
	ctrl.SetLogger(logger)
	ctx, stop := signal.NotifyContext(klog.NewContext(context.Background(), logger), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kubernetes, err := kubernetesConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	awsConfig, err := aws.LoadConfig(ctx)
	if err != nil {
		return err
	}
	if awsConfig, err = aws.WithMetrics(awsConfig, metrics.Registry); err != nil {
		return err
	}
	gates, err := launcher.ParseGates(settings.FeatureGates)
	if err != nil {
		return err
	}
	gate := &leadership.Gate{}
	awsConfig.HTTPClient = gate.AWS(awsConfig.HTTPClient)
	cloud, err := aws.New(aws.Config{
		AWS: awsConfig, ClusterName: settings.ClusterName, ClusterEndpoint: settings.ClusterEndpoint,
		ClusterCA: settings.ClusterCABundle, KubernetesVersion: settings.KubernetesVersion, ServiceCIDR: settings.ServiceCIDR,
		Fallback: fallback(kubernetes), ClusterDNS: dnsAddress(kubernetes), InterruptionQueue: settings.InterruptionQueue,
		IsolatedVPC: settings.IsolatedVPC, ZonalShift: settings.EnableZonalShift, ReservedENIs: int64(settings.ReservedENIs), MemoryOverhead: &settings.VMMemoryOverheadPercent,
		Periods: aws.Periods{Images: settings.AMIRefreshInterval.Duration, Subnets: settings.SubnetRefreshInterval.Duration},
		Logger:  logger.WithName("aws"), Metrics: metrics.Registry, OpenReservations: gates.OpenReservations,
	})
	if err != nil {
		return err
	}
	l, err := launcher.New(launcher.Config{Settings: settings, Kubernetes: kubernetes, Cloud: cloud, Account: committed.New(awsConfig), Scorer: spotscore.New(awsConfig), Gate: gate})
	if err != nil {
		return err
	}
	return l.Run(ctx)
}

// log sends the log to the paths: stdout, stderr and files, separated by commas. The files stay open until the process ends: why it ends is logged last.
func (f *flags) log(paths string) error {
	out, _, err := zap.Open(strings.Split(paths, ",")...)
	if err != nil {
		return fmt.Errorf("opening logOutputPaths %s: %w", paths, err)
	}
	// It comes after cli.Run's logs.InitLogs, which has contexts lose their loggers.
	return logsapi.ValidateAndApplyWithOptions(f.logs, &logsapi.LoggingOptions{ErrorStream: out, InfoStream: out}, nil)
}

// effective merges defaults, file, environment and flags; the later one overrides the earlier.
func (f *flags) effective(cmd *cobra.Command) (launcher.Settings, error) {
	out := launcher.Defaults()
	if f.file != "" {
		if err := out.Load(f.file); err != nil {
			return out, err
		}
	}
	if err := out.FromEnvironment(os.Getenv); err != nil {
		return out, err
	}
	for name, apply := range map[string]func(){
		"socket":                     func() { out.Socket = f.settings.Socket },
		"cluster-name":               func() { out.ClusterName = f.settings.ClusterName },
		"cluster-endpoint":           func() { out.ClusterEndpoint = f.settings.ClusterEndpoint },
		"cluster-ca-bundle":          func() { out.ClusterCABundle = f.settings.ClusterCABundle },
		"kubernetes-version":         func() { out.KubernetesVersion = f.settings.KubernetesVersion },
		"service-cidr":               func() { out.ServiceCIDR = f.settings.ServiceCIDR },
		"min-values-policy":          func() { out.MinValuesPolicy = f.settings.MinValuesPolicy },
		"interruption-queue":         func() { out.InterruptionQueue = f.settings.InterruptionQueue },
		"isolated-vpc":               func() { out.IsolatedVPC = f.settings.IsolatedVPC },
		"enable-zonal-shift":         func() { out.EnableZonalShift = f.settings.EnableZonalShift },
		"vm-memory-overhead-percent": func() { out.VMMemoryOverheadPercent = f.settings.VMMemoryOverheadPercent },
		"reserved-enis":              func() { out.ReservedENIs = f.settings.ReservedENIs },
		"ami-refresh-interval":       func() { out.AMIRefreshInterval = f.settings.AMIRefreshInterval },
		"subnet-refresh-interval":    func() { out.SubnetRefreshInterval = f.settings.SubnetRefreshInterval },
		"bind-at":                    func() { out.BindAt = bind.Setting(f.bindAt) },
		"feature-gates":              func() { out.FeatureGates = f.settings.FeatureGates },
		"expiry-window":              func() { out.ExpiryWindow = f.settings.ExpiryWindow },
		"consolidation-period":       func() { out.ConsolidationPeriod = f.settings.ConsolidationPeriod },
		"consolidation-payback":      func() { out.ConsolidationPayback = f.settings.ConsolidationPayback },
		"consolidation-min-saving":   func() { out.ConsolidationMinSaving = f.settings.ConsolidationMinSaving },
		"consolidation-node-age":     func() { out.ConsolidationNodeAge = f.settings.ConsolidationNodeAge },
		"consolidation-pod-age":      func() { out.ConsolidationPodAge = f.settings.ConsolidationPodAge },
		"join-deadline":              func() { out.JoinDeadline = f.settings.JoinDeadline },
		"empty-join-deadline":        func() { out.EmptyJoinDeadline = f.settings.EmptyJoinDeadline },
		"disrupt-bare-pods":          func() { out.DisruptBarePods = f.settings.DisruptBarePods },
		"commitments-config-map":     func() { out.CommitmentsConfigMap = f.settings.CommitmentsConfigMap },
		"commitment-share":           func() { out.CommitmentShare = f.settings.CommitmentShare },
		"bill-namespace":             func() { out.BillNamespace = f.settings.BillNamespace },
		"interruption-cost":          func() { out.InterruptionCost = f.settings.InterruptionCost },
		"interruptions-config-map":   func() { out.InterruptionsConfigMap = f.settings.InterruptionsConfigMap },
		"spot-placement-scores":      func() { out.SpotPlacementScores = f.settings.SpotPlacementScores },
		"commitments-from-aws":       func() { out.CommitmentsFromAWS = f.settings.CommitmentsFromAWS },
		"ignore-dra-requests":        func() { out.IgnoreDRARequests = f.settings.IgnoreDRARequests },
		"handover-selector":          func() { out.HandoverSelector = f.settings.HandoverSelector },
		"kube-client-qps":            func() { out.KubeClientQPS = f.settings.KubeClientQPS },
		"kube-client-burst":          func() { out.KubeClientBurst = f.settings.KubeClientBurst },
		"metrics-address":            func() { out.MetricsAddress = f.settings.MetricsAddress },
		"metrics-authentication":     func() { out.MetricsAuthentication = f.settings.MetricsAuthentication },
		"metrics-cert-dir":           func() { out.MetricsCertDir = f.settings.MetricsCertDir },
		"api-address":                func() { out.APIAddress = f.settings.APIAddress },
		"api-cert-dir":               func() { out.APICertDir = f.settings.APICertDir },
		"enable-profiling":           func() { out.EnableProfiling = f.settings.EnableProfiling },
		"log-output-paths":           func() { out.LogOutputPaths = f.settings.LogOutputPaths },
		"memory-limit":               func() { out.MemoryLimit = f.settings.MemoryLimit },
		"health-probe-address":       func() { out.HealthProbeAddress = f.settings.HealthProbeAddress },
	} {
		if cmd.Flags().Changed(name) {
			apply()
		}
	}
	return out, out.Validate()
}

// fallback returns a function that asks the API server for what EKS does not return.
func fallback(kubernetes *rest.Config) func(context.Context) (aws.ClusterFacts, error) {
	return func(ctx context.Context) (aws.ClusterFacts, error) {
		facts, err := launcher.AskAPIServer(ctx, kubernetes)
		return aws.ClusterFacts(facts), err
	}
}

// dnsAddress returns a function that asks the API server for the address of the cluster's DNS.
func dnsAddress(kubernetes *rest.Config) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return launcher.DNSAddress(ctx, kubernetes) }
}

func kubernetesConfig(path string) (*rest.Config, error) {
	if path == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", path)
}
