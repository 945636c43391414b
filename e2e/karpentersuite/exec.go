package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// moduleFolder returns the folder of a module that go.mod requires.
func moduleFolder(ctx context.Context, path string) (string, error) {
	if _, err := output(ctx, "go", "mod", "download", path); err != nil {
		return "", err
	}
	out, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", path)
	return strings.TrimSpace(string(out)), err
}

// output runs a command and returns what it prints.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running %s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.Bytes(), errs.Bytes())
	}
	return out.Bytes(), nil
}
