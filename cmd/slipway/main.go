// Command slipway answers a user's questions: what runs in a cluster that slipway serves, what it costs, why a pod is pending, what nodes
// have reported, and, offline, what slipway would launch for the objects of files. It changes nothing, except that `slipway learned
// --forget` removes reports.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/slipway-k8s/slipway/internal/terminal"
)

func main() {
	// The first signal ends the command's context: planning stops within moments. Then the default is restored, so that the second one kills
	// the process in any state.
	interrupted, stopInterrupt := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, stopTerminate := signal.NotifyContext(interrupted, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	code := exitCode(newCommand().ExecuteContext(ctx), interrupted.Err() != nil, ctx.Err() != nil)
	stopTerminate()
	stopInterrupt()
	os.Exit(code)
}

// exitCode returns 0 for success and 1 for an error. If a signal caused the error it returns 128 and the signal's number, as a shell does
// for a process that a signal killed.
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

// writesData is the annotation of a command whose output is YAML.
const writesData = "data"

func newCommand() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:          "slipway",
		Short:        "Ask slipway what it launches, what it costs, and why a pod is pending",
		SilenceUsage: true,
		Version:      version.Get().GitVersion,
		// Names and messages in the output are other people's: a terminal shows them and does not obey them.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			var out io.Writer = terminal.Text(cmd.OutOrStdout())
			if format := cmd.Flags().Lookup("output"); cmd.Annotations[writesData] != "" || format != nil && !slices.Contains([]string{"table", "wide"}, format.Value.String()) {
				out = terminal.Data(cmd.OutOrStdout())
			}
			cmd.SetOut(out)
			errs := terminal.Text(cmd.ErrOrStderr())
			cmd.SetErr(errs)
			cmd.Root().SetErr(errs)
			return refuseNamespace(cmd)
		},
	}
	root.PersistentFlags().StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, then ~/.kube/config)")
	root.PersistentFlags().StringVar(&o.context, "context", "", "name of the kubeconfig context to use")
	root.PersistentFlags().StringVarP(&o.namespace, namespaceFlag, "n", "", "namespace of the pods that status and top count (default: all), or of the pod to explain (default: the context's)")
	root.AddCommand(newStatus(o), newTop(o), newUI(o), newExplain(o), newLearned(o), newSimulate(o), newBill(o), newConvert())
	return root
}
