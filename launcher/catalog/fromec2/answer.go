package fromec2

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Fault is an instance type in an answer that cannot be used.
type Fault struct {
	// Type is its name, or its index in the list if it has no name.
	Type string
	// Field is the wrong field; empty for the whole entry.
	Field string
	// Message describes the fault and its consequence.
	Message string
}

// Answer parses the JSON that `aws ec2 describe-instance-types` prints, and returns the types that Linux nodes can use, sorted by name.
// Incomplete entries are left out and returned as faults. It returns an error if the text is not such an answer.
func Answer(text []byte) ([]catalog.Facts, []Fault, error) {
	var answer struct{ InstanceTypes []ec2types.InstanceTypeInfo }
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, nil, err
	}
	if len(answer.InstanceTypes) == 0 {
		return nil, nil, errors.New(`the list "InstanceTypes" has no entry: the output of aws ec2 describe-instance-types is expected`)
	}
	var out []catalog.Facts
	var faults []Fault
	seen := map[string]bool{}
	for i, info := range answer.InstanceTypes {
		facts, ok := Facts(info)
		switch {
		case facts.Name == "":
			faults = append(faults, Fault{fmt.Sprintf("InstanceTypes[%d]", i), "InstanceType", "is missing: the entry is left out"})
		case seen[facts.Name]:
			faults = append(faults, Fault{facts.Name, "", "is in the list more than once: the first one counts"})
		case !virtualized(info) || isMac(info, facts):
		case !ok:
			faults = append(faults, Fault{facts.Name, missing(facts), "is missing: the type is left out"})
		default:
			seen[facts.Name] = true
			out = append(out, facts)
		}
	}
	slices.SortFunc(out, func(a, b catalog.Facts) int { return strings.Compare(a.Name, b.Name) })
	return out, faults, nil
}

// virtualized reports whether current machine images start on the type: images for paravirtual types no longer exist.
func virtualized(info ec2types.InstanceTypeInfo) bool {
	return len(info.SupportedVirtualizationTypes) == 0 || slices.Contains(info.SupportedVirtualizationTypes, ec2types.VirtualizationTypeHvm)
}

// isMac reports whether no kubelet runs on the type's processors.
func isMac(info ec2types.InstanceTypeInfo, f catalog.Facts) bool {
	return f.Arch == "" && info.ProcessorInfo != nil && len(info.ProcessorInfo.SupportedArchitectures) > 0
}

func missing(f catalog.Facts) string {
	switch {
	case f.Arch == "":
		return "ProcessorInfo.SupportedArchitectures"
	case f.VCPUs <= 0:
		return "VCpuInfo.DefaultVCpus"
	}
	return "MemoryInfo.SizeInMiB"
}
