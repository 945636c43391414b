package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// suitesModule is the module file of the suites, from slipway's root. It requires Karpenter's module and nothing else.
const suitesModule = "e2e/karpentersuite/suites.mod"

// suites is the path of the packages.
const suites = "sigs.k8s.io/karpenter/test/suites/"

// build compiles a suite and returns the path of its test binary.
func build(ctx context.Context, suite, folder string) (string, error) {
	binary := filepath.Join(folder, suite+".test")
	fmt.Printf("building %s%s (the first time takes some minutes: it compiles Karpenter)\n", suites, suite)
	_, err := output(ctx, "go", "test", "-modfile="+suitesModule, "-c", "-o", binary, suites+suite)
	return binary, err
}

// dryRun returns the names of all cases.
func dryRun(ctx context.Context, binary, folder string) ([]string, error) {
	path := filepath.Join(folder, "names.json")
	if _, err := output(ctx, binary, "-ginkgo.dry-run", "-ginkgo.json-report="+path); err != nil {
		return nil, err
	}
	cases, err := readReport(path, nil)
	names := make([]string, 0, len(cases))
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names, err
}

// listens reports whether a case that the focus selects listens on figuresPort, or has this command listen there.
func listens(suite string, names []string, focus string) (bool, error) {
	selected, err := regexp.Compile(focus)
	if err != nil {
		return false, fmt.Errorf("validating --focus: %w", err)
	}
	return suite == performance || slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "Chaos ") && selected.MatchString("Regression "+name)
	}), nil
}

// portIsFree reports whether the port is free on which cases of Chaos serve metrics, and this command those of slipway: a case that cannot
// listen there ends the suite without a report.
func portIsFree(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+figuresPort)
	if err != nil {
		return fmt.Errorf("preparing the suite, which listens on port %s of this host: %w", figuresPort, err)
	}
	return listener.Close()
}

// grace is what a suite has to clean up after it was interrupted.
const grace = 5 * time.Minute

// suiteRun is a suite that runs on a cluster.
type suiteRun struct {
	binary, folder string
	cluster        *cluster
	options        options
}

// run runs a part of a suite on a cluster. Its output is in a file beside the binary.
func (s *suiteRun) run(ctx context.Context, p part) ([]result, error) {
	folder, o := s.folder, s.options
	report := filepath.Join(folder, p.name+".json")
	if err := os.Remove(report); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	args := []string{
		"-test.timeout=" + (o.timeout + 2*grace).String(), "-ginkgo.timeout=" + o.timeout.String(), "-ginkgo.grace-period=" + grace.String(),
		"-ginkgo.vv", "-ginkgo.no-color", "-ginkgo.json-report=" + report, "-default-nodeclass=" + s.cluster.nodeClass, "-default-nodepool=" + p.nodePool,
	}
	if p.focus != "" {
		args = append(args, "-ginkgo.focus="+p.focus)
	}
	if p.skip != "" {
		args = append(args, "-ginkgo.skip="+p.skip)
	}
	log, err := os.Create(filepath.Join(folder, p.name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	fmt.Printf("running %s at %g times EC2's speed; its output is in %s\n", p.name, o.speed, log.Name())
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.kubeconfig, "OUTPUT_DIR="+folder)
	cmd.Stdout, cmd.Stderr = log, log
	// An interrupted suite cleans up and writes its report.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = grace
	failed := cmd.Run()
	cases, err := readReport(report, leftOut(o.suite))
	if err != nil {
		return nil, fmt.Errorf("running suite %s: no report was written (%w): %w", o.suite, failed, err)
	}
	return cases, nil
}

// skipPattern returns the regular expression of the cases that are not run.
func skipPattern(leftOut map[string]string, skip string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(leftOut)) {
		parts = append(parts, caseName(name))
	}
	return either(append(parts, skip)...)
}

// readReport reads the file that Ginkgo wrote.
func readReport(path string, leftOut map[string]string) ([]result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cases, err := parseReport(data, leftOut)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return cases, nil
}
