package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

//go:embed files
var files embed.FS

// Versions of what is built beside Kubernetes, whose version is that of go.mod.
const (
	kindModule = "sigs.k8s.io/kind@v0.33.0"
	dnsModule  = "github.com/coredns/coredns@v1.14.7"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	b := &build{}
	cmd := &cobra.Command{
		Use: "nodeimage", Short: "Build kind's node image from source", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&b.folder, "out", "bin/kind", "folder that everything is made in")
	cmd.Flags().StringVar(&b.name, "name", "slipway.dev/kind-node", "name of the image; its tag is the version of Kubernetes")
	cmd.Flags().StringVar(&b.suite, "suite", "bookworm", "release of Debian")
	return cmd
}

// build is one run. The fields below the flags are found out on the way.
type build struct {
	folder, name, suite string

	// version of Kubernetes with its v, kind is the folder of kind's module.
	version, kind string
}

// step is one step of the build.
type step struct {
	name string
	run  func(context.Context) error
}

func (b *build) run(ctx context.Context) error {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return errors.New("debootstrap and chroot need Linux and root")
	}
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return err
	}
	for _, s := range []step{
		{"versions", b.versions},
		{"root file system", b.rootfs},
		{"binaries", b.binaries},
		{"images of pods", b.podImages},
		{"Kubernetes", b.install},
		{"node image", b.nodeImage},
	} {
		fmt.Println("==", s.name)
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// versions asks the go command.
func (b *build) versions(ctx context.Context) error {
	out, err := output(ctx, "go", "list", "-modfile=e2e/kind/kind.mod", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	b.version = strings.TrimSpace(out)
	downloaded, err := output(ctx, "go", "mod", "download", "-json", kindModule)
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(downloaded), &module); err != nil {
		return err
	}
	b.kind = module.Dir
	return nil
}

// path below the folder.
func (b *build) path(parts ...string) string {
	return filepath.Join(append([]string{b.folder}, parts...)...)
}

// output of a command that succeeds.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return out.String(), nil
}

// runVisibly runs a command and shows its output to the user.
func runVisibly(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
