package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// units are the services of a machine, as systemd has them: what ends is started again.
type units struct {
	folder  string
	running map[int]unit
}

type unit struct {
	name, path string
	args       []string
}

func newUnits(folder string) *units { return &units{folder: folder, running: map[int]unit{}} }

// start runs a program with its output in NAME.log.
func (u *units) start(name, path string, args ...string) error {
	found, err := exec.LookPath(path)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(u.folder, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// Not exec.Cmd: init reaps all processes of the machine in one place, keep.
	process, err := os.StartProcess(found, append([]string{found}, args...), &os.ProcAttr{
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
		Files: []*os.File{nil, log, log},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	u.running[process.Pid] = unit{name, path, args}
	return process.Release()
}

// keep reaps what ends in the machine, orphans too, and starts the units again, until ctx ends.
func (u *units) keep(ctx context.Context) error {
	for ctx.Err() == nil {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		ended, ours := u.running[pid]
		if !ours {
			continue
		}
		delete(u.running, pid)
		fmt.Printf("%s ended with status %d\n", ended.name, status.ExitStatus())
		time.Sleep(restartAfter)
		if err := u.start(ended.name, ended.path, ended.args...); err != nil {
			return err
		}
	}
	return ctx.Err()
}
