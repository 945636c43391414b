package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// realTime returns the names of the cases of a suite that measure a pod's grace period in real seconds: machines that are faster than EC2's
// shorten it.
func realTime(suite string) []string {
	if suite != regression {
		return nil
	}
	return []string{
		"Termination TerminationGracePeriod should delete pod that has a pre-stop hook after termination grace period seconds",
		"Termination should drain pods on a node in order",
	}
}

// round is a run of cases of a suite on a sandbox of their own.
type round struct {
	options options
	// folder gets the output of the suite and the logs.
	folder string
}

// roundsOf divides the selected cases by the speed that they need.
func roundsOf(names []string, o options, folder string) ([]round, error) {
	selected, err := selection(o)
	if err != nil {
		return nil, err
	}
	var slow, others []string
	for _, name := range names {
		switch {
		case !selected(name):
		case o.speed > 1 && slices.Contains(realTime(o.suite), name):
			slow = append(slow, caseName(name))
		default:
			others = append(others, name)
		}
	}
	var out []round
	if len(others) > 0 || len(slow) == 0 {
		quick := o
		quick.skip = either(append(slices.Clone(slow), o.skip)...)
		out = append(out, round{options: quick, folder: folder})
	}
	if len(slow) > 0 {
		o.speed, o.focus = 1, either(slow...)
		out = append(out, round{options: o, folder: filepath.Join(folder, "real-time")})
	}
	return out, nil
}

// selection returns a function that reports whether the options select the case.
func selection(o options) (func(name string) bool, error) {
	focus, err := regexp.Compile(o.focus)
	if err != nil {
		return nil, fmt.Errorf("validating --focus: %w", err)
	}
	skip, err := regexp.Compile(o.skip)
	if err != nil {
		return nil, fmt.Errorf("validating --skip: %w", err)
	}
	return func(name string) bool {
		full := suiteNode(o.suite) + name
		return focus.MatchString(full) && (o.skip == "" || !skip.MatchString(full))
	}, nil
}

// caseName returns the regular expression that the case alone matches. Ginkgo puts the suite's name before that of a case.
func caseName(name string) string { return `^\S+ ` + regexp.QuoteMeta(name) + "$" }

// either returns the regular expression of what matches one of the expressions; empty ones match nothing.
func either(expressions ...string) string {
	return strings.Join(slices.DeleteFunc(expressions, func(e string) bool { return e == "" }), "|")
}

// run runs the round on a sandbox, and returns the results of all cases of the suite.
func (r round) run(ctx context.Context, binary string, all []string) (_ []result, err error) {
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		return nil, err
	}
	c, err := startCluster(ctx, r.options, r.folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.prepare(ctx, r.options.suite); err != nil {
		return nil, err
	}
	suite := &suiteRun{binary: binary, folder: r.folder, cluster: c, options: r.options}
	return suite.all(ctx, all)
}
