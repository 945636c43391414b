package userdata

import (
	"maps"
	"mime"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cliflag "k8s.io/component-base/cli/flag"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Registration holds the labels and taints with which kubelets register their Nodes because spec.userData sets them.
type Registration struct {
	// Labels by key; those that the kubelet may not set on itself are left out.
	Labels map[string]string
	// Taints in their order.
	Taints []corev1.Taint
}

// RegistrationOf reads spec.userData of an AMI family. It reads NodeConfigs, Bottlerocket's settings, and plain calls of AL2's bootstrap.sh. What it cannot
// read sets nothing. Taints that the launcher's part of the user data replaces are left out: those of Bottlerocket's settings, and registerWithTaints of a
// NodeConfig for AL2023.
func RegistrationOf(family, custom string) Registration {
	flags := kubeletArgs{labels: cliflag.ConfigurationMap{}}
	if len(custom) > MaxBytes {
		return Registration{}
	}
	switch family {
	case catalog.FamilyBottlerocket:
		maps.Copy(flags.labels, bottlerocketLabels(custom))
	case catalog.FamilyAL2023, catalog.FamilyAL2, catalog.FamilyCustom:
		flags.readParts(family, custom)
	}
	maps.DeleteFunc(flags.labels, func(key, value string) bool {
		return !kubeletMaySet(key) || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0
	})
	return Registration{Labels: flags.labels, Taints: slices.DeleteFunc(flags.taints, invalid)}
}

func invalid(t corev1.Taint) bool {
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return len(validation.IsQualifiedName(t.Key)) > 0 || len(validation.IsValidLabelValue(t.Value)) > 0
	}
	return true
}

func bottlerocketLabels(custom string) map[string]string {
	var doc struct {
		Settings struct {
			Kubernetes struct {
				Labels map[string]string `toml:"node-labels"`
			} `toml:"kubernetes"`
		} `toml:"settings"`
	}
	if err := toml.Unmarshal([]byte(custom), &doc); err != nil {
		return nil // Such a class is not Ready.
	}
	return doc.Settings.Kubernetes.Labels
}

// kubeletArgs holds what a kubelet's settings say of its Node.
type kubeletArgs struct {
	labels cliflag.ConfigurationMap
	taints []corev1.Taint
	// flagged means that taints come from a flag, which overrides the kubelet's configuration.
	flagged bool
}

// readParts reads the parts of user data in their order: later NodeConfigs are merged over earlier ones.
func (k *kubeletArgs) readParts(family, custom string) {
	parts, err := customParts(custom, family != catalog.FamilyAL2)
	if err != nil {
		return
	}
	started := false
	for _, p := range parts {
		for _, value := range p.header["Content-Type"] {
			switch kind, _, err := mime.ParseMediaType(value); {
			case err != nil:
			case kind == nodeConfigType && family != catalog.FamilyAL2:
				k.readNodeConfig(p.body, family == catalog.FamilyCustom)
			case kind == shellScriptKind && family != catalog.FamilyAL2023 && !started:
				// The first call starts the kubelet. Another one does not start it again.
				var args string
				if args, started = bootstrapped(p.body); started {
					k.readFlags(args)
				}
			}
		}
	}
}

// readNodeConfig reads one NodeConfig. The flags of all of them are joined (amazon-eks-ami, nodeadm/internal/api/merge.go). withTaints is set where no later
// NodeConfig replaces registerWithTaints.
func (k *kubeletArgs) readNodeConfig(text string, withTaints bool) {
	var doc struct {
		Spec struct {
			Kubelet struct {
				Config struct {
					RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
				} `json:"config"`
				Flags []string `json:"flags"`
			} `json:"kubelet"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return
	}
	if taints := doc.Spec.Kubelet.Config.RegisterWithTaints; withTaints && !k.flagged && len(taints) > 0 {
		k.taints = taints
	}
	k.readFlags(strings.Join(doc.Spec.Kubelet.Flags, " "))
}

// readFlags reads a kubelet's command line: all --node-labels count, and the last --register-with-taints.
func (k *kubeletArgs) readFlags(line string) {
	args := words(line)
	for i, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "--node-labels":
			if err := k.labels.Set(value); err != nil {
				return
			}
		case "--register-with-taints":
			k.taints, k.flagged = nil, true
			for text := range strings.SplitSeq(value, ",") {
				k.taints = append(k.taints, taintOf(text))
			}
		}
	}
}

// taintOf reads KEY=VALUE:EFFECT or KEY:EFFECT (pkg/util/taints, ParseTaints).
func taintOf(text string) corev1.Taint {
	text, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(text, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
}
