package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"

	"github.com/slipway-k8s/slipway/internal/progress"
	"github.com/slipway-k8s/slipway/internal/release/licenses"
)

// built is a linked program with what it owes to others.
type built struct {
	binary   []byte
	info     *debug.BuildInfo
	licenses licenses.Texts
}

// report writes a line about work that goes on, to standard error.
func report(line string) { fmt.Fprintln(os.Stderr, line) }

// build links a reproducible static binary into a folder, and collects the licenses of what it links.
func (r *release) build(ctx context.Context, program, goos, goarch, into string) (*built, error) {
	path := filepath.Join(into, program)
	if err := os.MkdirAll(into, 0o755); err != nil {
		return nil, err
	}
	command := "./cmd/" + program
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", r.ldflags, "-o", path, command)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	fmt.Fprintf(os.Stderr, "building %s for %s/%s\n", program, goos, goarch)
	_, err := progress.During(report, "building "+program, func() (any, error) { return nil, cmd.Run() })
	if err != nil {
		return nil, fmt.Errorf("building %s for %s/%s: %w", program, goos, goarch, err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := &built{binary: binary}
	if out.info, err = buildinfo.Read(bytes.NewReader(binary)); err != nil {
		return nil, fmt.Errorf("reading build info of %s: %w", path, err)
	}
	sources, err := progress.During(report, "collecting the licenses of "+program, func() ([]licenses.Source, error) { return licenses.Linked(ctx, command, goos, goarch) })
	if err != nil {
		return nil, err
	}
	if out.licenses, err = licenses.Collect(sources, licenses.Exceptions()); err != nil {
		return nil, err
	}
	return out, out.licenses.Check(out.info, licenses.Exceptions())
}
