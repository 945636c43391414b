package kind_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// host is what the tests share: a Docker with its network and the node image.
type host struct {
	docker
	image string
}

var shared *host

func TestMain(m *testing.M) {
	code, err := runWith(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kind:", err)
		code = 1
	}
	os.Exit(code)
}

func runWith(m *testing.M) (code int, err error) {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "slipway-kind-")
	if err != nil {
		return 1, err
	}
	d, stop, err := findDocker(ctx, folder, filepath.Join(os.Getenv("SLIPWAY_KIND_DIR"), "bin", "runtime"))
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, stop(), os.RemoveAll(folder)) }()
	if _, err := d.run(ctx, nil, "docker", "network", "create", "--subnet", subnet, "--ip-range", low, "--gateway", gateway, network); err != nil {
		return 1, err
	}
	defer func() {
		_, gone := d.run(ctx, nil, "docker", "network", "rm", network)
		err = errors.Join(err, gone)
	}()
	shared = &host{docker: d}
	// kind reads its network's name from the environment.
	shared.environment = append(shared.environment, "KIND_EXPERIMENTAL_DOCKER_NETWORK="+network)
	if shared.image, err = d.nodeImage(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// nodeImage is KIND_NODE_IMAGE, or what `make kind-image` built, or kind's published one.
func (d docker) nodeImage(ctx context.Context) (string, error) {
	if image := os.Getenv("KIND_NODE_IMAGE"); image != "" {
		return image, nil
	}
	archive := filepath.Join(os.Getenv("SLIPWAY_KIND_DIR"), "node-image.tar")
	if _, err := os.Stat(archive); err != nil {
		return publishedImage, nil
	}
	out, err := d.run(ctx, nil, "docker", "load", "--input", archive)
	if err != nil {
		return "", err
	}
	_, image, found := strings.Cut(strings.TrimSpace(out), "Loaded image: ")
	if !found {
		return "", fmt.Errorf("docker load %s: %s", archive, out)
	}
	return image, nil
}

// images is the archive of a program's image, as `make images` wrote it.
func (h *host) images(program string) string {
	return filepath.Join(os.Getenv("SLIPWAY_IMAGES_DIR"), program+"-linux-"+runtime.GOARCH+".tar")
}
