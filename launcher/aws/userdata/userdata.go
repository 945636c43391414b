// Package userdata renders the user data that a node boots with, one format per AMI family, and reads the labels and taints that a user's own gives the
// Node. It is pure: the same input gives the same bytes, so that a launch template can be named by its content.
package userdata

import (
	"fmt"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Render returns the user data in plain text. It returns an error that names spec.userData if that cannot be parsed.
func Render(in Input) (string, error) {
	in.atOnce = true
	out, err := render(in)
	if err == nil && len(out) > MaxBytes {
		// The higher limit is optional: a class does not become invalid because the limit does not fit.
		in.atOnce = false
		out, err = render(in)
	}
	if err == nil && len(out) > MaxBytes {
		err = fmt.Errorf("spec.userData: together with what the node needs to join it has %d bytes, EC2 takes %d", len(out), MaxBytes)
	}
	if err != nil {
		return "", err
	}
	return out, nil
}

func render(in Input) (string, error) {
	switch in.Family {
	case catalog.FamilyAL2023:
		return nodeadm(in)
	case catalog.FamilyAL2:
		return bootstrapScript(in)
	case catalog.FamilyBottlerocket:
		return bottlerocket(in)
	case catalog.FamilyWindows2019, catalog.FamilyWindows2022, catalog.FamilyWindows2025:
		return startBootstrap(in)
	case catalog.FamilyCustom:
		return in.Custom, nil
	default:
		return "", fmt.Errorf("spec.amiFamily: %q is not supported", in.Family)
	}
}
