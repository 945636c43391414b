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

// docker is a Docker that answers: the user's, or one that the test started by hand.
type docker struct {
	// environment of commands that use it.
	environment []string
}

// findDocker returns the user's Docker if it answers, and starts dockerd otherwise, with a socket and a data root of its own.
func findDocker(ctx context.Context, folder, runtime string) (docker, func() error, error) {
	var d docker
	if _, err := d.run(ctx, nil, "docker", "info"); err == nil {
		return d, func() error { return nil }, nil
	}
	return startDocker(ctx, folder, runtime)
}

func startDocker(ctx context.Context, folder, runtime string) (docker, func() error, error) {
	socket := "unix://" + filepath.Join(folder, "docker.sock")
	args := []string{
		"--host", socket, "--data-root", filepath.Join(folder, "data"), "--exec-root", filepath.Join(folder, "exec"),
		"--pidfile", filepath.Join(folder, "docker.pid"), "--bridge", "none", "--oom-score-adjust", "0",
	}
	if lacks, err := lacksSysResource(); err != nil {
		return docker{}, nil, err
	} else if lacks {
		args = append(args, "--add-runtime", "slipway="+runtime, "--default-runtime", "slipway")
	}
	log, err := os.Create(filepath.Join(folder, "dockerd.log"))
	if err != nil {
		return docker{}, nil, err
	}
	daemon := exec.Command("dockerd", args...)
	daemon.Stdout, daemon.Stderr = log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := daemon.Start(); err != nil {
		return docker{}, nil, fmt.Errorf("no Docker answers, and none can be started (apt: docker.io): %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	d := docker{environment: []string{"DOCKER_HOST=" + socket}}
	stop := func() error {
		err := daemon.Process.Signal(syscall.SIGTERM)
		<-ended
		return errors.Join(err, log.Close(), unmountBelow(folder), os.RemoveAll(folder))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := d.run(ctx, nil, "docker", "info")
		if err == nil {
			return d, stop, nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			tail, _ := os.ReadFile(log.Name())
			return docker{}, nil, errors.Join(fmt.Errorf("dockerd does not answer: %w\n%s", err, tail), stop())
		case early := <-ended:
			tail, _ := os.ReadFile(log.Name())
			return docker{}, nil, fmt.Errorf("dockerd ended: %w\n%s", early, tail)
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
func (d docker) run(ctx context.Context, input []byte, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), d.environment...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// must is run for tests.
func (d docker) must(t *testing.T, input []byte, name string, args ...string) string {
	t.Helper()
	out, err := d.run(t.Context(), input, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
