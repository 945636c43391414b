// Command release builds the published artifacts: the container images (`make images`) and the Helm charts (`make charts`). It needs neither
// Docker nor Helm.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/internal/release/image"
	"github.com/slipway-k8s/slipway/manifests/chart"
)

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
	version, revision, repository, out, ldflags string
	architectures, programs                     []string
	push                                        bool
}

func newCommand() *cobra.Command {
	r := &release{}
	root := &cobra.Command{Use: "release", Short: "Make slipway's container images and Helm charts", SilenceUsage: true}
	root.PersistentFlags().StringVar(&r.version, "version", "", "version that is stamped")
	root.PersistentFlags().StringVar(&r.out, "out", "bin", "folder that images/ and charts/ are written to")
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
	flags.BoolVar(&r.push, "push", false, "push to the repository, with the credentials of docker login")
	charts := &cobra.Command{
		Use: "charts", Short: "Pack the Helm charts; Karpenter's CRDs come from its modules", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return r.charts() },
	}
	root.AddCommand(images, charts)
	return root
}

// charts packs both charts, and writes the CRDs for kubectl too.
func (r *release) charts() error {
	// Helm logs each link that it follows.
	log.SetOutput(io.Discard)
	into := filepath.Join(r.out, "charts")
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	for _, folder := range []string{"slipway-crds", "slipway"} {
		path, err := chart.Pack(filepath.Join("manifests", "charts", folder), r.version, into)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	crds, err := chart.CRDs()
	if err != nil {
		return err
	}
	var texts []string
	for _, crd := range crds {
		texts = append(texts, string(crd.Data))
	}
	path := filepath.Join(into, "crds.yaml")
	fmt.Println(path)
	return os.WriteFile(path, []byte(strings.Join(texts, "---\n")), 0o644)
}

// images builds one image of each program: an OCI layout for all architectures, and an archive for each architecture, for `docker load` and
// `kind load image-archive`.
func (r *release) images(ctx context.Context) error {
	if r.version == "" {
		return errors.New("--version is required")
	}
	for _, program := range r.programs {
		reference, err := name.NewTag(r.repository + "/" + program + ":" + r.version)
		if err != nil {
			return err
		}
		index, err := r.index(ctx, program, reference)
		if err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", reference, digest)
		if r.push {
			if err := remote.WriteIndex(reference, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) index(ctx context.Context, program string, reference name.Tag) (v1.ImageIndex, error) {
	folder := filepath.Join(r.out, "images")
	var images []v1.Image
	for _, architecture := range r.architectures {
		binary, err := r.build(ctx, program, architecture)
		if err != nil {
			return nil, err
		}
		made, err := image.New(
			image.Program{Name: program, Architecture: architecture, Binary: binary},
			image.Labels{Version: r.version, Revision: r.revision, Source: "https://github.com/slipway-k8s/slipway"},
		)
		if err != nil {
			return nil, err
		}
		archive := filepath.Join(folder, program+"-linux-"+architecture+".tar")
		if err := tarball.WriteToFile(archive, reference, made); err != nil {
			return nil, err
		}
		fmt.Println(archive)
		images = append(images, made)
	}
	index, err := image.Index(images)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, program)
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	written, err := layout.Write(path, empty.Index)
	if err != nil {
		return nil, err
	}
	fmt.Println(path)
	return index, written.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": reference.String()}))
}

// build links a reproducible static binary.
func (r *release) build(ctx context.Context, program, architecture string) ([]byte, error) {
	path := filepath.Join(r.out, "images", "linux-"+architecture, program)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", r.ldflags, "-o", path, "./cmd/"+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build for %s: %w", architecture, err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return binary, image.CheckStatic(binary, architecture)
}
