package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// PolicyValues are what iam/launcher.json leaves open. All are required but Partition.
type PolicyValues struct {
	// Partition of the account; default aws.
	Partition string
	// Region that the cluster is in.
	Region string
	// AccountID of the account.
	AccountID string
	// ClusterName of the EKS cluster.
	ClusterName string
	// NodeRole is the name, with its path if it has one, of the role that nodes have; * and ? are wildcards of IAM.
	NodeRole string
	// InterruptionQueue is the name of the SQS queue.
	InterruptionQueue string
}

// placeholder is a value of a policy that is left open, such as ${ClusterName}.
var placeholder = regexp.MustCompile(`\$\{[A-Za-z]+\}`)

// valid is what the values are made of in AWS. A quotation mark in one would be another policy.
var valid = regexp.MustCompile(`^[A-Za-z0-9_+=,.@/*?-]+$`)

// LauncherPolicy is the IAM policy that slipway-launcher needs, no more: iam/launcher.json with the values filled in.
func LauncherPolicy(v PolicyValues) ([]byte, error) {
	if v.Partition == "" {
		v.Partition = "aws"
	}
	template, err := files.ReadFile("iam/launcher.json")
	if err != nil {
		return nil, err
	}
	values := map[string]string{
		"${Partition}": v.Partition, "${Region}": v.Region, "${AccountID}": v.AccountID, "${ClusterName}": v.ClusterName,
		"${NodeRole}": v.NodeRole, "${InterruptionQueue}": v.InterruptionQueue,
	}
	var errs []error
	for name, value := range values {
		if !valid.MatchString(value) {
			errs = append(errs, fmt.Errorf("iam/launcher.json: %s: %q is no such name", name, value))
		}
	}
	out := placeholder.ReplaceAllFunc(template, func(name []byte) []byte {
		value, known := values[string(name)]
		if !known {
			errs = append(errs, fmt.Errorf("iam/launcher.json: %s is none of its values", name))
		}
		return []byte(value)
	})
	if !json.Valid(out) {
		errs = append(errs, errors.New("iam/launcher.json is not JSON"))
	}
	return out, errors.Join(errs...)
}
