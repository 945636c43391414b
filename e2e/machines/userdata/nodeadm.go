package userdata

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	nodeConfigType = "application/node.eks.aws"
	nodeConfigAPI  = "node.eks.aws/v1alpha1"
)

// nodeConfig is the part of nodeadm's NodeConfig that a simulated machine knows.
type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster struct {
			Name                 string `json:"name"`
			APIServerEndpoint    string `json:"apiServerEndpoint"`
			CertificateAuthority string `json:"certificateAuthority"`
			CIDR                 string `json:"cidr"`
		} `json:"cluster"`
		Kubelet struct {
			Config kubeletConfig `json:"config"`
			Flags  []string      `json:"flags"`
		} `json:"kubelet"`
		Instance struct {
			LocalStorage struct {
				Strategy string `json:"strategy"`
			} `json:"localStorage"`
		} `json:"instance"`
	} `json:"spec"`
}

type kubeletConfig struct {
	MaxPods            *int64            `json:"maxPods"`
	PodsPerCore        *int64            `json:"podsPerCore"`
	KubeReserved       map[string]string `json:"kubeReserved"`
	SystemReserved     map[string]string `json:"systemReserved"`
	EvictionHard       map[string]string `json:"evictionHard"`
	RegisterWithTaints []struct {
		Key    string `json:"key"`
		Value  string `json:"value"`
		Effect string `json:"effect"`
	} `json:"registerWithTaints"`
}

func parseNodeadm(data string) (Config, error) {
	documents, err := nodeConfigs(data)
	if err != nil {
		return Config{}, err
	}
	cfg := Config{Labels: map[string]string{}}
	for i, text := range documents {
		var doc nodeConfig
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			return Config{}, fmt.Errorf("NodeConfig %d: %w", i, err)
		}
		if doc.APIVersion != nodeConfigAPI || doc.Kind != "NodeConfig" {
			return Config{}, fmt.Errorf("NodeConfig %d: apiVersion %q and kind %q, want %s and NodeConfig", i, doc.APIVersion, doc.Kind, nodeConfigAPI)
		}
		if err := cfg.add(doc); err != nil {
			return Config{}, fmt.Errorf("NodeConfig %d: %w", i, err)
		}
		if err := cfg.keep(text); err != nil {
			return Config{}, fmt.Errorf("NodeConfig %d: %w", i, err)
		}
	}
	if cfg.ServiceCIDR == "" {
		return Config{}, errors.New("spec.cluster.cidr is missing")
	}
	return cfg, nil
}

// nodeConfigs returns the NodeConfig documents in the order in which nodeadm merges them.
func nodeConfigs(data string) ([]string, error) {
	trimmed := strings.TrimLeft(data, "\r\n\t ")
	if strings.HasPrefix(trimmed, "apiVersion:") {
		return []string{trimmed}, nil
	}
	message, err := mail.ReadMessage(strings.NewReader(trimmed))
	if err != nil {
		return nil, errors.New("neither a MIME message nor a NodeConfig nor Bottlerocket settings")
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("Content-Type of the MIME message: %w", err)
	}
	if kind == nodeConfigType {
		body, err := io.ReadAll(message.Body)
		return []string{string(body)}, err
	}
	if !strings.HasPrefix(kind, "multipart/") {
		return nil, fmt.Errorf("a MIME message of type %s without a NodeConfig", kind)
	}
	documents, err := parts(multipart.NewReader(message.Body, params["boundary"]))
	if err == nil && len(documents) == 0 {
		err = fmt.Errorf("no MIME part of type %s", nodeConfigType)
	}
	return documents, err
}

func parts(r *multipart.Reader) ([]string, error) {
	var out []string
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("MIME part %d: %w", len(out), err)
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil || kind != nodeConfigType {
			continue
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return nil, fmt.Errorf("MIME part %d: %w", len(out), err)
		}
		out = append(out, string(body))
	}
}

// add merges a document: what it sets replaces what came before, flags and labels are added.
func (c *Config) add(doc nodeConfig) error {
	cluster, kubelet := doc.Spec.Cluster, doc.Spec.Kubelet
	for _, f := range []struct {
		to    *string
		value string
	}{
		{&c.Cluster, cluster.Name},
		{&c.Endpoint, cluster.APIServerEndpoint},
		{&c.CertificateAuthority, cluster.CertificateAuthority},
		{&c.ServiceCIDR, cluster.CIDR},
	} {
		if f.value != "" {
			*f.to = f.value
		}
	}
	if kubelet.Config.MaxPods != nil {
		c.MaxPods = *kubelet.Config.MaxPods
	}
	if kubelet.Config.PodsPerCore != nil {
		c.PodsPerCore = *kubelet.Config.PodsPerCore
	}
	mergeInto(&c.KubeReserved, kubelet.Config.KubeReserved)
	mergeInto(&c.SystemReserved, kubelet.Config.SystemReserved)
	mergeInto(&c.EvictionHard, kubelet.Config.EvictionHard)
	if doc.Spec.Instance.LocalStorage.Strategy == "RAID0" {
		c.InstanceStore = true
	}
	if len(kubelet.Config.RegisterWithTaints) > 0 {
		c.Taints = nil
	}
	for _, t := range kubelet.Config.RegisterWithTaints {
		taint, err := newTaint(t.Key, t.Value, t.Effect)
		if err != nil {
			return fmt.Errorf("spec.kubelet.config.registerWithTaints: %w", err)
		}
		c.Taints = append(c.Taints, taint)
	}
	for _, flag := range kubelet.Flags {
		if err := c.addFlag(flag); err != nil {
			return fmt.Errorf("spec.kubelet.flags: %w", err)
		}
	}
	return nil
}

// keep remembers what a real kubelet is started with.
func (c *Config) keep(text string) error {
	var doc struct {
		Spec struct {
			Kubelet struct {
				Config map[string]any `json:"config"`
				Flags  []string       `json:"flags"`
			} `json:"kubelet"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return err
	}
	if c.Kubelet == nil {
		c.Kubelet = map[string]any{}
	}
	maps.Copy(c.Kubelet, doc.Spec.Kubelet.Config)
	c.Flags = append(c.Flags, doc.Spec.Kubelet.Flags...)
	return nil
}

func mergeInto(to *map[string]string, from map[string]string) {
	if len(from) == 0 {
		return
	}
	if *to == nil {
		*to = map[string]string{}
	}
	maps.Copy(*to, from)
}

// addFlag reads one kubelet flag; those that concern neither the Node nor its size are the kubelet's own affair.
func (c *Config) addFlag(flag string) error {
	name, value, _ := strings.Cut(strings.TrimLeft(strings.TrimSpace(flag), "-"), "=")
	value = strings.Trim(value, `"'`)
	switch name {
	case "node-labels":
		for pair := range strings.SplitSeq(value, ",") {
			if key, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok {
				c.Labels[key] = v
			} else if key != "" {
				return fmt.Errorf("--node-labels: %q is no key=value", pair)
			}
		}
	case "register-with-taints":
		for s := range strings.SplitSeq(value, ",") {
			if s == "" {
				continue
			}
			taint, err := parseTaint(strings.TrimSpace(s))
			if err != nil {
				return fmt.Errorf("--register-with-taints: %w", err)
			}
			c.Taints = append(c.Taints, taint)
		}
	case "max-pods":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("--max-pods: %w", err)
		}
		c.MaxPods = n
	}
	return nil
}
