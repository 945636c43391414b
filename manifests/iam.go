package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// PolicyValues are the values of the placeholders in iam/launcher.json. All are required except Partition.
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
		switch {
		case !valid.MatchString(value):
			errs = append(errs, fmt.Errorf("filling in iam/launcher.json: %s: %q is no such name", name, value))
		case name == "${NodeRole}" && !letters.MatchString(value):
			errs = append(errs, fmt.Errorf("filling in iam/launcher.json: %s: %q is each role of the account, expected a part of a name", name, value))
		case name != "${NodeRole}" && strings.ContainsAny(value, "*?"):
			errs = append(errs, fmt.Errorf("filling in iam/launcher.json: %s: %q has a wildcard, expected one name", name, value))
		}
	}
	out := placeholder.ReplaceAllFunc(template, func(name []byte) []byte {
		value, known := values[string(name)]
		if !known {
			errs = append(errs, fmt.Errorf("iam/launcher.json: unknown value %s", name))
		}
		return []byte(value)
	})
	if !json.Valid(out) {
		errs = append(errs, errors.New("iam/launcher.json is not JSON"))
	}
	return out, errors.Join(errs...)
}

// PlacementScoresPolicy returns the IAM policy that slipway-launcher needs beside with the setting spotPlacementScores: iam/placement-scores.json.
func PlacementScoresPolicy() ([]byte, error) { return files.ReadFile("iam/placement-scores.json") }

// CommitmentsPolicy returns the IAM policy that slipway-launcher needs beside with the setting commitmentsFromAWS: iam/commitments.json.
func CommitmentsPolicy() ([]byte, error) { return files.ReadFile("iam/commitments.json") }
