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
	// once is for units that have an end.
	once bool
}

func newUnits(folder string) *units { return &units{folder: folder, running: map[int]unit{}} }

// start runs a program, again whenever it ends.
func (u *units) start(name, path string, args ...string) error {
	return u.run(unit{name: name, path: path, args: args})
}

// once runs a program until it ends.
func (u *units) once(name, path string, args ...string) error {
	return u.run(unit{name: name, path: path, args: args, once: true})
}

// run runs a program with its output in NAME.log.
func (u *units) run(what unit) error {
	name, path, args := what.name, what.path, what.args
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
		Env:   []string{"KUBELET_ENVIRONMENT=" + environmentFile, "HOME=/root", "PATH=" + standInFolder + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Files: []*os.File{nil, log, log},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	u.running[process.Pid] = what
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
		if ended.once {
			continue
		}
		time.Sleep(restartAfter)
		if err := u.run(ended); err != nil {
			return err
		}
	}
	return ctx.Err()
}
