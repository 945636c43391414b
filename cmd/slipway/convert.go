package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/launcher/convert"
)

// errIncomplete is the error of a conversion that needs more options.
var errIncomplete = errors.New("something that v1 requires is missing, see above")

// newConvert returns the command convert.
func newConvert() *cobra.Command {
	var files []string
	var options convert.Options
	cmd := &cobra.Command{
		Use:   "convert -f FILE_OR_DIRECTORY...",
		Short: "Convert manifests of Karpenter's older APIs to v1, offline",
		Long: `Convert reads Provisioner v1alpha5, AWSNodeTemplate v1alpha1, NodePool and EC2NodeClass v1beta1, and writes them as v1 to
standard output; other documents pass untouched. What is lost, assumed or missing is listed on standard error, with object,
field and why. It exits with 1 if something is missing that only you know.`,
		Example: `  slipway convert -f karpenter/ --role KarpenterNodeRole-prod > nodepools.yaml
  kubectl get provisioners,awsnodetemplates -o yaml | slipway convert -f - --instance-profile nodes | kubectl apply --dry-run=server -f -`,
		Annotations: map[string]string{writesData: "yaml"},
		RunE: func(cmd *cobra.Command, args []string) error {
			inputs, err := readInputs(append(files, args...), cmd.InOrStdin())
			if err != nil {
				return err
			}
			result, err := convert.Convert(inputs, options)
			if err != nil {
				return err
			}
			for _, finding := range result.Findings {
				fmt.Fprintln(cmd.ErrOrStderr(), finding)
			}
			if _, err := cmd.OutOrStdout().Write(result.Text); err != nil {
				return err
			}
			if result.Incomplete() {
				return errIncomplete
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "files or directories with manifests in YAML or JSON; - for standard input")
	cmd.Flags().StringVar(&options.Role, "role", "", "role of the nodes, where the manifest names neither a role nor an instance profile")
	cmd.Flags().StringVar(&options.InstanceProfile, "instance-profile", "", "instance profile of the nodes, instead of --role")
	cmd.Flags().StringVar(&options.AMIAlias, "ami-alias", "", "images where the manifest names none that still exist (default "+convert.DefaultAMIAlias+")")
	cmd.MarkFlagsMutuallyExclusive("role", "instance-profile")
	return cmd
}

// readInputs reads files, the manifests in directories as kubectl does, and standard input.
func readInputs(names []string, stdin io.Reader) ([]convert.Input, error) {
	if len(names) == 0 {
		return nil, errors.New("nothing to convert: give -f")
	}
	var out []convert.Input
	for _, name := range names {
		paths := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if paths, err = manifestsIn(name); err != nil {
				return nil, err
			}
		}
		for _, path := range paths {
			input := convert.Input{Name: path}
			var err error
			if path == "-" {
				input.Text, err = io.ReadAll(stdin)
			} else {
				input.Text, err = os.ReadFile(path)
			}
			if err != nil {
				return nil, err
			}
			out = append(out, input)
		}
	}
	return out, nil
}

func manifestsIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			out = append(out, filepath.Join(folder, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("directory %s has no file *.yaml, *.yml or *.json", folder)
	}
	return out, nil
}
