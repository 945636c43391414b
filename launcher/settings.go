package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/bind"
)

// Settings are what a user may choose: by configuration file, environment or flag, the later one winning.
type Settings struct {
	// Socket is the path of the unix socket that the scheduler connects to. Default /run/slipway/launcher.sock.
	Socket string `json:"socket,omitempty"`
	// ClusterName is the name of the EKS cluster. Required.
	ClusterName string `json:"clusterName,omitempty"`
	// ClusterEndpoint is the API server's URL that nodes are told; empty asks EKS.
	ClusterEndpoint string `json:"clusterEndpoint,omitempty"`
	// ClusterCABundle is the API server's certificate authority that nodes are told, PEM in base64; empty asks EKS.
	ClusterCABundle string `json:"clusterCABundle,omitempty"`
	// InterruptionQueue is the name of the SQS queue; empty means that interruptions are not heard of.
	InterruptionQueue string `json:"interruptionQueue,omitempty"`
	// BindAt is when promised pods are bound: auto, launch, ready or never. Default auto.
	BindAt bind.Setting `json:"bindAt,omitempty"`
	// JoinDeadline is how long a node with promised pods may take to become Ready. Default 5m.
	JoinDeadline metav1.Duration `json:"joinDeadline,omitzero"`
	// EmptyJoinDeadline is the same for a node without promised pods. Default 15m.
	EmptyJoinDeadline metav1.Duration `json:"emptyJoinDeadline,omitzero"`
	// HandoverSelector selects by label the NodePools that are slipway's although a live Karpenter runs in the cluster.
	// Default: none are.
	HandoverSelector string `json:"handoverSelector,omitempty"`
	// KubeClientQPS and KubeClientBurst limit requests to the API server. Defaults 1000 and 2000.
	KubeClientQPS   int `json:"kubeClientQPS,omitempty"`
	KubeClientBurst int `json:"kubeClientBurst,omitempty"`
	// MetricsAddress serves /metrics. Default :8080; "0" serves none.
	MetricsAddress string `json:"metricsAddress,omitempty"`
	// HealthProbeAddress serves /healthz and /readyz. Default :8081; "0" serves none.
	HealthProbeAddress string `json:"healthProbeAddress,omitempty"`
}

// Defaults are the settings of somebody who sets nothing.
func Defaults() Settings {
	return Settings{
		Socket: "/run/slipway/launcher.sock", BindAt: bind.Auto,
		JoinDeadline: metav1.Duration{Duration: 5 * time.Minute}, EmptyJoinDeadline: metav1.Duration{Duration: 15 * time.Minute},
		KubeClientQPS: 1000, KubeClientBurst: 2000, MetricsAddress: ":8080", HealthProbeAddress: ":8081",
	}
}

// Load reads a configuration file over the settings; a field that it does not know is an error.
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

// FromEnvironment sets what the environment names, as Karpenter's settings are named. getenv is os.Getenv but in tests.
func (s *Settings) FromEnvironment(getenv func(string) string) {
	for name, field := range map[string]*string{
		"CLUSTER_NAME": &s.ClusterName, "CLUSTER_ENDPOINT": &s.ClusterEndpoint, "CLUSTER_CA_BUNDLE": &s.ClusterCABundle,
		"INTERRUPTION_QUEUE": &s.InterruptionQueue,
	} {
		if value := getenv(name); value != "" {
			*field = value
		}
	}
}

// Validate says what is wrong, each with the field and what was expected.
func (s *Settings) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(s.Socket != "", "socket: a path is required")
	require(s.ClusterName != "", "clusterName: required (flag --cluster-name or environment CLUSTER_NAME)")
	_, err := bind.ParseSetting(string(s.BindAt))
	require(err == nil, "%w", err)
	require(s.JoinDeadline.Duration > 0, "joinDeadline: %s is not positive", s.JoinDeadline.Duration)
	require(s.EmptyJoinDeadline.Duration > 0, "emptyJoinDeadline: %s is not positive", s.EmptyJoinDeadline.Duration)
	require(s.KubeClientQPS > 0, "kubeClientQPS: %d is not positive", s.KubeClientQPS)
	require(s.KubeClientBurst >= s.KubeClientQPS, "kubeClientBurst: %d is below kubeClientQPS %d", s.KubeClientBurst, s.KubeClientQPS)
	_, err = labels.Parse(s.HandoverSelector)
	require(err == nil, "handoverSelector: %w", err)
	return errors.Join(errs...)
}
