package kind_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// findDocker finds the user's Docker if it answers, and starts dockerd otherwise, with a socket and a data root of its own, which
// it has commands use by the environment.
func findDocker(ctx context.Context, folder, runtime string) (stop func() error, err error) {
	if _, err := run(ctx, nil, "docker", "info"); err == nil {
		return func() error { return nil }, nil
	}
	return startDocker(ctx, folder, runtime)
}

const cannotStart = "no Docker answers, and none can be started (root; apt: docker.io): %w"

func startDocker(ctx context.Context, folder, runtime string) (stop func() error, err error) {
	socket := "unix://" + filepath.Join(folder, "docker.sock")
	args := []string{
		"--host", socket, "--data-root", filepath.Join(folder, "data"), "--exec-root", filepath.Join(folder, "exec"),
		"--pidfile", filepath.Join(folder, "docker.pid"), "--bridge", "none", "--oom-score-adjust", "0",
	}
	if lacks, err := lacksSysResource(); err != nil {
		return nil, err
	} else if lacks {
		args = append(args, "--add-runtime", "slipway="+runtime, "--default-runtime", "slipway")
	}
	rules, err := readRules(ctx)
	if err != nil {
		return nil, fmt.Errorf(cannotStart, err)
	}
	log, err := os.Create(filepath.Join(folder, "dockerd.log"))
	if err != nil {
		return nil, err
	}
	daemon := exec.Command("dockerd", args...)
	daemon.Stdout, daemon.Stderr = log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := daemon.Start(); err != nil {
		return nil, fmt.Errorf(cannotStart, err)
	}
	ended := make(chan struct{})
	var ending error
	go func() {
		ending = daemon.Wait()
		close(ended)
	}()
	stop = func() error {
		err := daemon.Process.Signal(syscall.SIGTERM)
		<-ended
		return errors.Join(err, log.Close(), rules.restore(), unmountBelow(folder), os.RemoveAll(folder))
	}
	if err := os.Setenv("DOCKER_HOST", socket); err != nil {
		return nil, errors.Join(err, stop())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := run(ctx, nil, "docker", "info")
		if err == nil {
			return stop, nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			tail, _ := os.ReadFile(log.Name())
			return nil, errors.Join(fmt.Errorf("dockerd does not answer: %w\n%s", err, tail), stop())
		case <-ended:
			tail, _ := os.ReadFile(log.Name())
			return nil, errors.Join(fmt.Errorf("dockerd ended: %w\n%s", ending, tail), stop())
		}
	}
}

// lacksSysResource tells whether this process, and so dockerd, has not all capabilities that a privileged container gets.
func lacksSysResource() (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, err
	}
	return data[0].Permitted&(1<<unix.CAP_SYS_RESOURCE) == 0, nil
}

// unmountBelow takes away what containers left mounted.
func unmountBelow(folder string) error {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], folder+"/") {
			errs = append(errs, unix.Unmount(fields[1], unix.MNT_DETACH))
		}
	}
	return errors.Join(errs...)
}

// run returns what a command that succeeds prints.
func run(ctx context.Context, input []byte, name string, args ...string) (string, error) {
	out, err := runAll(ctx, input, name, args...)
	if err != nil {
		return "", err
	}
	return out, nil
}

// runAll returns what a command prints, whether it succeeds or not.
func runAll(ctx context.Context, input []byte, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// docker returns what a docker command of a test's prints.
func docker(t *testing.T, input []byte, args ...string) string {
	t.Helper()
	out, err := run(t.Context(), input, "docker", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
