package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// takesNamespace is the annotation of a command that namespaceFlag has a meaning for.
const takesNamespace = "namespace"

const namespaceFlag = "namespace"

// options holds the flags that every command has, and the client that they configure.
type options struct {
	kubeconfig, context, namespace string
	// recordNamespace has the record of what nodes cost.
	recordNamespace string
}

// connection returns the connection to the API server, and the namespace that the user works in.
func (o *options) connection() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.context}
	overrides.Context.Namespace = o.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", noKubeconfig(rules.Precedence)
	}
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

// noKubeconfig returns why there is no cluster to ask: none of the files is there, or what is there names no cluster.
func noKubeconfig(files []string) error {
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return fmt.Errorf("reading kubeconfig %s: it names no cluster", file)
		}
	}
	return fmt.Errorf("reading kubeconfig %s: there is no such file; give --kubeconfig, or set KUBECONFIG", strings.Join(files, ", "))
}

func (o *options) client() (client.Client, string, error) {
	config, namespace, err := o.connection()
	if err != nil {
		return nil, "", err
	}
	// Karpenter's API packages register their types with client-go's scheme.
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	return c, namespace, err
}

// refuseNamespace returns an error if --namespace was given to a command that it has no meaning for.
func refuseNamespace(cmd *cobra.Command) error {
	if !cmd.Flags().Changed(namespaceFlag) || cmd.Annotations[takesNamespace] != "" {
		return nil
	}
	if cmd.Name() == "bill" {
		return errors.New("--namespace: slipway bill is about the whole cluster, --by namespace has a row for each namespace")
	}
	return fmt.Errorf("--namespace: it has no meaning for %s", cmd.CommandPath())
}
