package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/launcher/handover"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Settings are the user's settings from configuration file, environment and flags; the later one overrides the earlier.
type Settings struct {
	// Socket is the path of the unix socket that the scheduler connects to. Default /run/slipway/launcher.sock.
	Socket string `json:"socket,omitempty"`
	// ClusterName is the name of the EKS cluster. Required.
	ClusterName string `json:"clusterName,omitempty"`
	// ClusterEndpoint is the API server's URL for nodes; empty means that EKS is asked.
	ClusterEndpoint string `json:"clusterEndpoint,omitempty"`
	// ClusterCABundle is the API server's certificate authority for nodes, PEM in base64; empty means that EKS is asked.
	ClusterCABundle string `json:"clusterCABundle,omitempty"`
	// KubernetesVersion is the version that AMI aliases are resolved for, such as 1.36; empty means that EKS is asked, or else the API
	// server.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ServiceCIDR is the range of the cluster's Services, for nodes, IPv6 in an IPv6 cluster; empty means that EKS is asked, or else the API server.
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	// MinValuesPolicy is for a claim whose minValues cannot be kept at launch: Strict fails it, BestEffort launches with the remaining
	// values. Default Strict.
	MinValuesPolicy string `json:"minValuesPolicy,omitempty"`
	// InterruptionQueue is the name of the SQS queue; if it is empty, no interruption is received.
	InterruptionQueue string `json:"interruptionQueue,omitempty"`
	// IsolatedVPC means that neither the Price List API nor IAM can be reached: the built-in on-demand prices are used at once, and a class that names
	// its instance profile is served without IAM.
	IsolatedVPC bool `json:"isolatedVPC,omitempty"`
	// EnableZonalShift makes the zones unavailable that the EKS cluster's zonal shifts are away from, and leaves their instances as they are. Default false.
	EnableZonalShift bool `json:"enableZonalShift,omitempty"`
	// VMMemoryOverheadPercent is the share of an instance type's memory, 0 to 1, that is assumed to be lost until a node has reported.
	// Default 0.075.
	VMMemoryOverheadPercent float64 `json:"vmMemoryOverheadPercent"`
	// ReservedENIs is the number of network interfaces of each node that give no addresses to pods. Default 0.
	ReservedENIs int `json:"reservedENIs,omitempty"`
	// AMIRefreshInterval and SubnetRefreshInterval are how long EC2's answers about AMIs and subnets are cached. Defaults 1m.
	AMIRefreshInterval    metav1.Duration `json:"amiRefreshInterval,omitzero"`
	SubnetRefreshInterval metav1.Duration `json:"subnetRefreshInterval,omitzero"`
	// BindAt is when promised pods are bound: auto, launch, ready or never. Default auto.
	BindAt bind.Setting `json:"bindAt,omitempty"`
	// JoinDeadline is how long a node that was launched for pods may take to become Ready. Default 5m.
	JoinDeadline metav1.Duration `json:"joinDeadline,omitzero"`
	// EmptyJoinDeadline is the same for any other node, and for bare metal and Windows. Default 15m.
	EmptyJoinDeadline metav1.Duration `json:"emptyJoinDeadline,omitzero"`
	// FeatureGates has Karpenter's format, such as NodeRepair=true. Default: all are off.
	FeatureGates string `json:"featureGates,omitempty"`
	// ExpiryWindow is how long before the end of its expireAfter a node may be replaced within the budgets; at most a tenth of expireAfter.
	// Zero means that nodes are not replaced earlier. Default 12h.
	ExpiryWindow metav1.Duration `json:"expiryWindow,omitzero"`
	// ConsolidationPeriod is how often consolidation decides which nodes to remove, if something has changed. Default 10s.
	ConsolidationPeriod metav1.Duration `json:"consolidationPeriod,omitzero"`
	// ConsolidationPayback is the time within which a move must have saved the cost of its evictions and of the time in which both nodes are
	// paid. Default 2h.
	ConsolidationPayback metav1.Duration `json:"consolidationPayback,omitzero"`
	// ConsolidationMinSaving is the minimum saving of a move, in USD per hour. Default 0.005.
	ConsolidationMinSaving float64 `json:"consolidationMinSaving"`
	// ConsolidationNodeAge is the minimum age of a node before consolidation disrupts it. Default 0s.
	ConsolidationNodeAge metav1.Duration `json:"consolidationNodeAge,omitzero"`
	// ConsolidationPodAge is how long a pod must have run to be moved almost as readily as an old one: at this age, moving it counts twice.
	// Default 0s: pods of all ages count alike.
	ConsolidationPodAge metav1.Duration `json:"consolidationPodAge,omitzero"`
	// DisruptBarePods means that pods without a controller do not keep a node from being consolidated, or replaced when it has drifted or
	// expires soon: they end with it, as with Karpenter. Default false.
	DisruptBarePods bool `json:"disruptBarePods,omitempty"`
	// IgnoreDRARequests means that nodes are initialized without the devices that were planned for ResourceClaims, as with Karpenter. The
	// scheduler's argument of the same name decides whether such pods are planned for. Default true.
	IgnoreDRARequests bool `json:"ignoreDRARequests"`
	// CommitmentsConfigMap is NAMESPACE/NAME of the ConfigMap with the account's Savings Plans and Reserved Instances. Default
	// kube-system/slipway-commitments; one that does not exist has none.
	CommitmentsConfigMap string `json:"commitmentsConfigMap,omitempty"`
	// CommitmentsFromAWS means that the account's Savings Plans and Reserved Instances are read from AWS as well. Default false.
	CommitmentsFromAWS bool `json:"commitmentsFromAWS,omitempty"`
	// CommitmentShare is the share of each commitment that this cluster may use: above 0, at most 1. A commitment's own sharePercent counts beside it.
	// Default 1.
	CommitmentShare float64 `json:"commitmentShare,omitempty"`
	// BillNamespace is the namespace of the ConfigMaps with the records of what nodes cost, of decisions, and of the commitments that AWS returned last; "0"
	// records nothing. Default kube-system.
	BillNamespace string `json:"billNamespace,omitempty"`
	// InterruptionCost is what an interrupted pod costs, in USD: expected interruptions are a part of what spot nodes cost. 0 leaves them out.
	// Default 0.005: half of what an eviction costs at least.
	InterruptionCost float64 `json:"interruptionCost"`
	// InterruptionsConfigMap is NAMESPACE/NAME of the ConfigMap with what was learned of spot interruptions, and the user's priors. Default
	// kube-system/slipway-interruptions.
	InterruptionsConfigMap string `json:"interruptionsConfigMap,omitempty"`
	// SpotPlacementScores means that EC2 is asked for spot placement scores: offerings of a low score are expected to be interrupted more often. Default
	// false.
	SpotPlacementScores bool `json:"spotPlacementScores,omitempty"`
	// HandoverSelector selects by label the NodePools that slipway manages although a Karpenter runs in the cluster, where the handover policies
	// keep that Karpenter from them. Empty means none. Default slipway.dev/handover=true.
	HandoverSelector string `json:"handoverSelector,omitempty"`
	// KubeClientQPS and KubeClientBurst limit requests to the API server. Defaults 1000 and 2000.
	KubeClientQPS   int `json:"kubeClientQPS,omitempty"`
	KubeClientBurst int `json:"kubeClientBurst,omitempty"`
	// MetricsAddress serves /metrics. Default :8080; "0" disables it.
	MetricsAddress string `json:"metricsAddress,omitempty"`
	// MetricsAuthentication means that /metrics is served with TLS, to clients that the API server knows and lets get the URL /metrics.
	MetricsAuthentication bool `json:"metricsAuthentication,omitempty"`
	// MetricsCertDir has the certificate of /metrics, tls.crt and tls.key. Empty means one that is made at each start.
	MetricsCertDir string `json:"metricsCertDir,omitempty"`
	// APIAddress serves the API, with TLS, to viewers that the API server knows. Default "0", which serves none.
	APIAddress string `json:"apiAddress,omitempty"`
	// APICertDir has the certificate of the API, tls.crt and tls.key. Empty means one that is made at each start.
	APICertDir string `json:"apiCertDir,omitempty"`
	// EnableProfiling serves Go's profiles at /debug/pprof beside /metrics, to the same clients. Default false.
	EnableProfiling bool `json:"enableProfiling,omitempty"`
	// LogOutputPaths is where the log goes: files, stdout and stderr, separated by commas. Default stderr.
	LogOutputPaths string `json:"logOutputPaths,omitempty"`
	// MemoryLimit is the memory of the container, in bytes: Go collects garbage more often from nine tenths of it on. Zero means that it is not known.
	// The environment variable GOMEMLIMIT overrides it.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`
	// HealthProbeAddress serves /healthz and /readyz. Default :8081; "0" disables it.
	HealthProbeAddress string `json:"healthProbeAddress,omitempty"`
}

// noAddress is the address that serves nothing.
const noAddress = "0"

// noRecords is the namespace that has no ConfigMaps with records.
const noRecords = "0"

// The values of MinValuesPolicy, Karpenter's.
const (
	minValuesStrict     = "Strict"
	minValuesBestEffort = "BestEffort"
)

// Defaults returns the default settings.
func Defaults() Settings {
	return Settings{
		Socket: "/run/slipway/launcher.sock", BindAt: bind.Auto, MinValuesPolicy: minValuesStrict,
		JoinDeadline: metav1.Duration{Duration: 5 * time.Minute}, EmptyJoinDeadline: metav1.Duration{Duration: 15 * time.Minute},
		IgnoreDRARequests: true, VMMemoryOverheadPercent: 0.075, ExpiryWindow: metav1.Duration{Duration: 12 * time.Hour},
		AMIRefreshInterval: metav1.Duration{Duration: time.Minute}, SubnetRefreshInterval: metav1.Duration{Duration: time.Minute},
		ConsolidationPeriod: metav1.Duration{Duration: 10 * time.Second}, ConsolidationPayback: metav1.Duration{Duration: 2 * time.Hour},
		ConsolidationMinSaving: 0.005, HandoverSelector: handover.Label + "=true", CommitmentsConfigMap: "kube-system/slipway-commitments",
		CommitmentShare: 1, BillNamespace: "kube-system", InterruptionCost: 0.005, InterruptionsConfigMap: "kube-system/slipway-interruptions",
		KubeClientQPS: 1000, KubeClientBurst: 2000, MetricsAddress: ":8080", APIAddress: noAddress, HealthProbeAddress: ":8081",
		LogOutputPaths: "stderr",
	}
}

// Load reads a configuration file over the settings; an unknown field is an error.
func (s *Settings) Load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(data), s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// FromEnvironment sets what the environment names, with the names of Karpenter's settings. It returns an error if a value cannot be parsed.
// getenv is os.Getenv except in tests.
func (s *Settings) FromEnvironment(getenv func(string) string) error {
	for name, field := range map[string]*string{
		"CLUSTER_NAME": &s.ClusterName, "CLUSTER_ENDPOINT": &s.ClusterEndpoint, "CLUSTER_CA_BUNDLE": &s.ClusterCABundle,
		"INTERRUPTION_QUEUE": &s.InterruptionQueue, "MIN_VALUES_POLICY": &s.MinValuesPolicy, "FEATURE_GATES": &s.FeatureGates,
		"LOG_OUTPUT_PATHS": &s.LogOutputPaths,
	} {
		if value := getenv(name); value != "" {
			*field = value
		}
	}
	var errs []error
	parse := func(name string, read func(string) error) {
		if value := getenv(name); value != "" {
			if err := read(value); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", name, err))
			}
		}
	}
	duration := func(field *metav1.Duration) func(string) error {
		return func(text string) (err error) { field.Duration, err = time.ParseDuration(text); return err }
	}
	parse("ISOLATED_VPC", func(text string) (err error) { s.IsolatedVPC, err = strconv.ParseBool(text); return err })
	parse("ENABLE_ZONAL_SHIFT", func(text string) (err error) { s.EnableZonalShift, err = strconv.ParseBool(text); return err })
	parse("IGNORE_DRA_REQUESTS", func(text string) (err error) { s.IgnoreDRARequests, err = strconv.ParseBool(text); return err })
	parse("ENABLE_PROFILING", func(text string) (err error) { s.EnableProfiling, err = strconv.ParseBool(text); return err })
	parse("MEMORY_LIMIT", func(text string) (err error) { s.MemoryLimit, err = strconv.ParseInt(text, 10, 64); return err })
	parse("RESERVED_ENIS", func(text string) (err error) { s.ReservedENIs, err = strconv.Atoi(text); return err })
	parse("VM_MEMORY_OVERHEAD_PERCENT", func(text string) (err error) {
		s.VMMemoryOverheadPercent, err = strconv.ParseFloat(text, 64)
		return err
	})
	parse("AMI_REFRESH_INTERVAL", duration(&s.AMIRefreshInterval))
	parse("SUBNET_REFRESH_INTERVAL", duration(&s.SubnetRefreshInterval))
	return errors.Join(errs...)
}

// Validate returns all errors, each with the field and the expected value.
func (s *Settings) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(s.Socket != "", "socket: a path is required")
	require(s.MetricsCertDir == "" || s.MetricsAuthentication, "metricsCertDir: plain HTTP has no certificate, expected metricsAuthentication")
	require(s.APICertDir == "" || s.serves(s.APIAddress), "apiCertDir: no API is served, expected apiAddress")
	require(s.ClusterName != "", "clusterName: required (flag --cluster-name or environment CLUSTER_NAME)")
	_, err := bind.ParseSetting(string(s.BindAt))
	require(err == nil, "%w", err)
	require(s.MinValuesPolicy == minValuesStrict || s.MinValuesPolicy == minValuesBestEffort,
		"minValuesPolicy: %q is neither %s nor %s", s.MinValuesPolicy, minValuesStrict, minValuesBestEffort)
	require(s.JoinDeadline.Duration > 0, "joinDeadline: %s is not positive", s.JoinDeadline.Duration)
	require(s.EmptyJoinDeadline.Duration > 0, "emptyJoinDeadline: %s is not positive", s.EmptyJoinDeadline.Duration)
	require(s.VMMemoryOverheadPercent >= 0 && s.VMMemoryOverheadPercent < 1, "vmMemoryOverheadPercent: %v is not a share from 0 up to 1", s.VMMemoryOverheadPercent)
	require(s.MemoryLimit >= 0, "memoryLimit: %d is negative, expected bytes or 0", s.MemoryLimit)
	require(!slices.Contains(strings.Split(s.LogOutputPaths, ","), ""), "logOutputPaths: %q has an empty path, expected stdout, stderr or files, separated by commas", s.LogOutputPaths)
	require(s.ReservedENIs >= 0, "reservedENIs: %d is negative", s.ReservedENIs)
	require(s.AMIRefreshInterval.Duration > 0, "amiRefreshInterval: %s is not positive", s.AMIRefreshInterval.Duration)
	require(s.SubnetRefreshInterval.Duration > 0, "subnetRefreshInterval: %s is not positive", s.SubnetRefreshInterval.Duration)
	require(s.KubeClientQPS > 0, "kubeClientQPS: %d is not positive", s.KubeClientQPS)
	require(s.KubeClientBurst >= s.KubeClientQPS, "kubeClientBurst: %d is below kubeClientQPS %d", s.KubeClientBurst, s.KubeClientQPS)
	require(s.ExpiryWindow.Duration >= 0, "expiryWindow: %s is negative", s.ExpiryWindow.Duration)
	require(s.ConsolidationPeriod.Duration > 0, "consolidationPeriod: %s is not positive", s.ConsolidationPeriod.Duration)
	require(s.ConsolidationPayback.Duration > 0, "consolidationPayback: %s is not positive", s.ConsolidationPayback.Duration)
	require(s.ConsolidationMinSaving >= 0, "consolidationMinSaving: %v is negative", s.ConsolidationMinSaving)
	require(s.ConsolidationNodeAge.Duration >= 0, "consolidationNodeAge: %s is negative", s.ConsolidationNodeAge.Duration)
	require(s.ConsolidationPodAge.Duration >= 0, "consolidationPodAge: %s is negative", s.ConsolidationPodAge.Duration)
	_, err = ParseGates(s.FeatureGates)
	require(err == nil, "%w", err)
	_, err = configMapName("commitmentsConfigMap", s.CommitmentsConfigMap)
	require(err == nil, "%w", err)
	_, err = configMapName("interruptionsConfigMap", s.InterruptionsConfigMap)
	require(err == nil, "%w", err)
	require(s.InterruptionCost >= 0 && s.InterruptionCost <= interruption.MostCost, "interruptionCost: USD from 0 to %d are expected, got %v", interruption.MostCost, s.InterruptionCost)
	require(s.CommitmentShare > 0 && s.CommitmentShare <= 1, "commitmentShare: a share above 0, at most 1, is expected, got %v", s.CommitmentShare)
	require(s.BillNamespace == noRecords || len(validation.IsDNS1123Label(s.BillNamespace)) == 0, "billNamespace: %q is no name of a namespace, expected one, or 0 for no record", s.BillNamespace)
	_, err = labels.Parse(s.HandoverSelector)
	require(err == nil, "handoverSelector: %w", err)
	return errors.Join(errs...)
}

// configMapName returns the namespace and name of a setting.
func configMapName(setting, text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%s: NAMESPACE/NAME of a ConfigMap is expected, got %q", setting, text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// patience returns how long nodes may take to become Ready.
func (s *Settings) patience() record.Patience {
	return record.Patience{Promised: s.JoinDeadline.Duration, Empty: s.EmptyJoinDeadline.Duration}
}

// records returns the namespace of the ConfigMaps with records; empty for none.
func (s *Settings) records() string {
	if s.BillNamespace == noRecords {
		return ""
	}
	return s.BillNamespace
}

// serves reports whether something is served on the address.
func (s *Settings) serves(address string) bool { return address != "" && address != noAddress }
