package kind_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// imageVariable of the environment names the node image: the user's, or what TestMain found.
const imageVariable = "KIND_NODE_IMAGE"

// TestMain readies a Docker with its network and the node image, which the tests share: the environment says which.
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
	stop, err := findDocker(ctx, folder, filepath.Join(os.Getenv("SLIPWAY_KIND_DIR"), "bin", "runtime"))
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, stop(), os.RemoveAll(folder)) }()
	if _, err := run(ctx, nil, "docker", "network", "create", "--subnet", subnet, "--ip-range", low, "--gateway", gateway, network); err != nil {
		return 1, err
	}
	defer func() {
		_, gone := run(ctx, nil, "docker", "network", "rm", network)
		err = errors.Join(err, gone)
	}()
	image, err := nodeImage(ctx)
	if err != nil {
		return 1, err
	}
	// kind reads its network's name from the environment.
	for name, value := range map[string]string{"KIND_EXPERIMENTAL_DOCKER_NETWORK": network, imageVariable: image} {
		if err := os.Setenv(name, value); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// nodeImage is KIND_NODE_IMAGE, or what `make kind-image` built, or kind's published one.
func nodeImage(ctx context.Context) (string, error) {
	if image := os.Getenv(imageVariable); image != "" {
		return image, nil
	}
	built := filepath.Join(os.Getenv("SLIPWAY_KIND_DIR"), "node-image.tar")
	if _, err := os.Stat(built); errors.Is(err, fs.ErrNotExist) {
		return publishedImage, nil
	} else if err != nil {
		return "", err
	}
	out, err := run(ctx, nil, "docker", "load", "--input", built)
	if err != nil {
		return "", err
	}
	_, image, found := strings.Cut(strings.TrimSpace(out), "Loaded image: ")
	if !found {
		return "", fmt.Errorf("docker load %s: %s", built, out)
	}
	return image, nil
}

// archive of a program's image, as `make images` wrote it.
func archive(program string) string {
	return filepath.Join(os.Getenv("SLIPWAY_IMAGES_DIR"), program+"-linux-"+runtime.GOARCH+".tar")
}
