// Command attest finishes a release in the folder that `make release` fills. It gives each image an SBOM, provenance and signatures as OCI
// referrers, in the image's layout, and the other files SBOMs, provenance and signed checksums. It is a module of its own: what it needs is not in
// slipway's go.mod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	folder := flag.String("release", "bin/release", "folder of the release")
	version := flag.String("version", "", "version that is released")
	revision := flag.String("revision", "", "commit that was built")
	ldflags := flag.String("ldflags", "", "flags of the linker that the binaries were built with")
	keyless := flag.String("keyless", "", "cosign, which signs with the identity of the workflow; without, COSIGN_KEY is the file of a key")
	push := flag.Bool("push", false, "push images and referrers to their repositories, with the credentials of docker login")
	flag.Parse()
	if *version == "" {
		return errors.New("--version is required")
	}
	with, err := signerOf(*keyless, os.Getenv)
	if err != nil {
		return err
	}
	if with == nil {
		fmt.Fprintln(os.Stderr, "NOT SIGNED: set COSIGN_KEY to a key file, or use --keyless")
	}
	r := release{folder: *folder, out: os.Stdout, with: with, build: buildOf(*version, *revision, *ldflags, os.Getenv)}
	if err := r.finish(ctx); err != nil {
		return err
	}
	if *push {
		return r.push(ctx)
	}
	return nil
}

// signerOf returns nil where nothing is configured.
func signerOf(keyless string, env func(string) string) (signer, error) {
	key := env("COSIGN_KEY")
	switch {
	case keyless != "" && key != "":
		return nil, errors.New("--keyless and COSIGN_KEY: one of them is expected")
	case keyless != "":
		return &cosign{command: strings.Fields(keyless)}, nil
	case key == "":
		return nil, nil
	}
	text, err := os.ReadFile(key)
	if err != nil {
		return nil, fmt.Errorf("reading COSIGN_KEY: %w", err)
	}
	return newKey(text, []byte(env("COSIGN_PASSWORD")))
}
