// Command slipway answers a user's questions: what runs in a cluster that slipway serves, what it costs, why a pod is
// still pending, and, offline, what slipway would launch for the objects of files. It changes nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

func main() {
	// The first signal ends the command's context: planning stops within moments. Then the default is restored, so that the
	// second one kills the process, whatever it is at.
	interrupted, stopInterrupt := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, stopTerminate := signal.NotifyContext(interrupted, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	code := exitCode(newCommand().ExecuteContext(ctx), interrupted.Err() != nil, ctx.Err() != nil)
	stopTerminate()
	stopInterrupt()
	os.Exit(code)
}

// exitCode is 0 for success, and 1 for an error unless a signal caused it: then 128 and the signal's number, as a shell
// reports of a process that died of it.
func exitCode(err error, interrupt, terminate bool) int {
	switch {
	case err == nil:
		return 0
	case interrupt:
		return 128 + int(syscall.SIGINT)
	case terminate:
		return 128 + int(syscall.SIGTERM)
	}
	return 1
}

// options are the flags that every command takes, and the client they lead to.
type options struct {
	kubeconfig, context, namespace string
}

func newCommand() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:          "slipway",
		Short:        "Ask slipway what it launches, what it costs, and why a pod is pending",
		SilenceUsage: true,
		Version:      version.Get().GitVersion,
	}
	root.PersistentFlags().StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, then ~/.kube/config)")
	root.PersistentFlags().StringVar(&o.context, "context", "", "name of the kubeconfig context to use")
	root.PersistentFlags().StringVarP(&o.namespace, "namespace", "n", "", "namespace (default: the context's)")
	root.AddCommand(newStatus(o), newExplain(o), newSimulate(o), newConvert())
	return root
}

func newStatus(o *options) *cobra.Command {
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show slipway's nodes, where the pods stand, and the bill",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := o.client()
			if err != nil {
				return err
			}
			for {
				if err := status(cmd.Context(), c, cmd.OutOrStdout()); err != nil || watch <= 0 {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(watch):
					fmt.Fprintln(cmd.OutOrStdout())
				}
			}
		},
	}
	cmd.Flags().DurationVarP(&watch, "watch", "w", 0, "print again at this interval, until interrupted")
	return cmd
}

func status(ctx context.Context, c client.Client, w io.Writer) error {
	in, err := objects(ctx, c)
	if err != nil {
		return err
	}
	return view.New(in).Table(w)
}

func objects(ctx context.Context, c client.Client) (view.Objects, error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var claims karpv1.NodeClaimList
	err := errors.Join(c.List(ctx, &pods), c.List(ctx, &nodes), c.List(ctx, &claims))
	return view.Objects{Pods: pods.Items, Nodes: nodes.Items, NodeClaims: claims.Items}, err
}

func (o *options) client() (client.Client, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.context}
	overrides.Context.Namespace = o.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", err
	}
	// Karpenter's API packages register their types with client-go's scheme.
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	return c, namespace, err
}
