package manifests

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Policies are the objects of one file of admission/, in its order.
type Policies struct {
	// Policies are rules for the launcher, or for a Karpenter.
	Policies []admissionv1.ValidatingAdmissionPolicy
	// Bindings put them in force.
	Bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// Admission decodes the policies of the launcher.
func Admission() (Policies, error) { return policies("admission/launcher.yaml") }

// Handover decodes the policies that keep a Karpenter from the NodePools that are handed over.
func Handover() (Policies, error) { return policies("admission/handover.yaml") }

func policies(name string) (Policies, error) {
	var out Policies
	documents, err := Documents(name)
	if err != nil {
		return out, err
	}
	for i, document := range documents {
		if err := out.add(document); err != nil {
			return out, fmt.Errorf("%s: document %d: %w", name, i+1, err)
		}
	}
	return out, nil
}

func (p *Policies) add(document []byte) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(document, &meta); err != nil {
		return err
	}
	switch meta {
	case metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"}:
		return decodeInto(document, &p.Policies)
	case metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"}:
		return decodeInto(document, &p.Bindings)
	default:
		return fmt.Errorf("kind %q of %q is not of %s", meta.Kind, meta.APIVersion, admissionv1.SchemeGroupVersion)
	}
}
