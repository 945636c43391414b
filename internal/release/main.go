// Command release builds the published artifacts: the container images (`make images`), the Helm charts (`make charts`), and the archives of
// the command line with their krew manifest (`make release` makes all). It needs neither Docker nor Helm.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// source is where the repository is published.
const source = "https://github.com/slipway-k8s/slipway"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

// release holds the flags.
type release struct {
	version, revision, repository, out, ldflags, pinned string
	architectures, programs, platforms                  []string
	archives, push                                      bool
}

func newCommand() *cobra.Command {
	r := &release{}
	root := &cobra.Command{Use: "release", Short: "Make slipway's container images, Helm charts and archives", SilenceUsage: true}
	root.PersistentFlags().StringVar(&r.version, "version", "", "version that is stamped")
	root.PersistentFlags().StringVar(&r.out, "out", "bin", "folder that is written to: images/ and charts/ in it, archives directly")
	images := &cobra.Command{
		Use: "images", Short: "Build static binaries and put each into an image for all architectures", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.images(cmd.Context()) },
	}
	flags := images.Flags()
	flags.StringVar(&r.revision, "revision", "", "commit that is stamped")
	flags.StringVar(&r.repository, "repository", "ghcr.io/slipway-k8s", "registry and path that the images are named in")
	flags.StringVar(&r.ldflags, "ldflags", "", "flags of the linker")
	flags.StringSliceVar(&r.architectures, "arch", []string{"amd64", "arm64"}, "architectures")
	flags.StringSliceVar(&r.programs, "program", []string{"slipway-scheduler", "slipway-launcher"}, "programs of cmd/")
	flags.BoolVar(&r.archives, "archives", true, "write an archive for each architecture as well, for docker load")
	flags.BoolVar(&r.push, "push", false, "push to the repository, with the credentials of docker login")
	charts := &cobra.Command{
		Use: "charts", Short: "Pack the Helm charts; Karpenter's CRDs come from its modules", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return r.charts() },
	}
	charts.Flags().StringVar(&r.pinned, "digests", "", "file of the images that the chart names by digest, such as bin/images/images.txt")
	cli := &cobra.Command{
		Use: "cli", Short: "Pack the command line for each platform, and write its krew manifest", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.cli(cmd.Context()) },
	}
	cli.Flags().StringVar(&r.ldflags, "ldflags", "", "flags of the linker")
	cli.Flags().StringSliceVar(&r.platforms, "platform", []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}, "platforms, as GOOS/GOARCH")
	root.AddCommand(images, charts, cli)
	return root
}
