package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// PolicyValues are the values of the placeholders in iam/launcher.json and iam/standby.json. All are required except Partition.
type PolicyValues struct {
	// Partition of the account; default aws.
	Partition string
	// Region that the cluster is in.
	Region string
	// AccountID of the account.
	AccountID string
	// ClusterName of the EKS cluster.
	ClusterName string
	// NodeRole is the name, with its path if it has one, of the nodes' role; * and ? are IAM's wildcards, beside at least one letter or digit.
	NodeRole string
	// InterruptionQueue is the name of the SQS queue.
	InterruptionQueue string
}

// placeholder matches a placeholder of a policy, such as ${ClusterName}.
var placeholder = regexp.MustCompile(`\$\{[A-Za-z]+\}`)

// valid matches the characters that these values have in AWS. A quotation mark in one would change the policy.
var valid = regexp.MustCompile(`^[A-Za-z0-9_+=,.@/*?-]+$`)

// letters matches what is more than wildcards.
var letters = regexp.MustCompile(`[A-Za-z0-9]`)

// LauncherPolicy returns the minimal IAM policy of slipway-launcher: iam/launcher.json with the values filled in.
func LauncherPolicy(v PolicyValues) ([]byte, error) { return fill("iam/launcher.json", v) }

// StandbyPolicy returns the IAM policy that slipway-launcher needs beside for standby capacity buffers: iam/standby.json with the values filled in.
func StandbyPolicy(v PolicyValues) ([]byte, error) { return fill("iam/standby.json", v) }

// fill returns a policy with its placeholders filled in.
func fill(file string, v PolicyValues) ([]byte, error) {
	if v.Partition == "" {
		v.Partition = "aws"
	}
	template, err := files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values := map[string]string{
		"${Partition}": v.Partition, "${Region}": v.Region, "${AccountID}": v.AccountID, "${ClusterName}": v.ClusterName,
		"${NodeRole}": v.NodeRole, "${InterruptionQueue}": v.InterruptionQueue,
	}
	var errs []error
	for name, value := range values {
		switch {
		case !valid.MatchString(value):
			errs = append(errs, fmt.Errorf("filling in %s: %s: %q is no such name", file, name, value))
		case name == "${NodeRole}" && !letters.MatchString(value):
			errs = append(errs, fmt.Errorf("filling in %s: %s: %q is each role of the account, expected a part of a name", file, name, value))
		case name != "${NodeRole}" && strings.ContainsAny(value, "*?"):
			errs = append(errs, fmt.Errorf("filling in %s: %s: %q has a wildcard, expected one name", file, name, value))
		}
	}
	out := placeholder.ReplaceAllFunc(template, func(name []byte) []byte {
		value, known := values[string(name)]
		if !known {
			errs = append(errs, fmt.Errorf("%s: unknown value %s", file, name))
		}
		return []byte(value)
	})
	if !json.Valid(out) {
		errs = append(errs, fmt.Errorf("%s is not JSON", file))
	}
	return out, errors.Join(errs...)
}

// PlacementScoresPolicy returns the IAM policy that slipway-launcher needs beside with the setting spotPlacementScores: iam/placement-scores.json.
func PlacementScoresPolicy() ([]byte, error) { return files.ReadFile("iam/placement-scores.json") }

// CommitmentsPolicy returns the IAM policy that slipway-launcher needs beside with the setting commitmentsFromAWS: iam/commitments.json.
func CommitmentsPolicy() ([]byte, error) { return files.ReadFile("iam/commitments.json") }
