package kind_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// container is one of slipway's two, seen from the control plane, which it runs on: its image has no shell.
type container struct {
	cluster *cluster
	// program is its only process, pid is the process's ID on the control plane.
	program, pid string
}

// launcher and scheduler are the containers of slipway's only Pod. A Pod that ends may still be there at first.
func (c *cluster) launcher(t *testing.T) container {
	t.Helper()
	return c.container(t, "slipway-launcher")
}

func (c *cluster) scheduler(t *testing.T) container {
	t.Helper()
	return c.container(t, "slipway-scheduler")
}

func (c *cluster) container(t *testing.T, program string) container {
	t.Helper()
	out := container{cluster: c, program: program}
	c.ready(t, "one process "+program, func(ctx context.Context) (bool, error) {
		found, err := run(ctx, nil, "docker", "exec", c.controlPlane(), "pgrep", "--full", "^/"+program+" ")
		pids := strings.Fields(found)
		if err == nil && len(pids) != 1 {
			err = fmt.Errorf("processes %v", pids)
		}
		if err == nil {
			out.pid = pids[0]
		}
		return err == nil, err
	})
	return out
}

// proc is a file of /proc of the container's process; root/ leads into the container's file system.
func (c container) proc(t *testing.T, path string) string {
	t.Helper()
	return string(c.cluster.file(t, "/proc/"+c.pid+"/"+path))
}

// token is that of the service account, as the container's user reads it: root of the control plane may not follow that user's links.
func (c container) token(t *testing.T) string {
	t.Helper()
	const path = "/root/var/run/secrets/kubernetes.io/serviceaccount/token"
	return docker(t, nil, "exec", "--user", "65532:65532", c.cluster.controlPlane(), "cat", "/proc/"+c.pid+path)
}

// confined holds that the process is an ordinary user without capabilities and cannot write to its root file system, and that the socket is in
// a folder of its own user in a volume in memory.
func (c container) confined(t *testing.T) {
	t.Helper()
	status := map[string]string{}
	for line := range strings.Lines(c.proc(t, "status")) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.Join(strings.Fields(value), " ")
	}
	const user, none = "65532 65532 65532 65532", "0000000000000000"
	for name, want := range map[string]string{"Uid": user, "Gid": user, "CapPrm": none, "CapEff": none, "CapBnd": none, "NoNewPrivs": "1", "Seccomp": "2"} {
		if status[name] != want {
			t.Errorf("%s has %s %q, want %q", c.program, name, status[name], want)
		}
	}
	mounts := map[string][]string{}
	for line := range strings.Lines(c.proc(t, "mounts")) {
		if fields := strings.Fields(line); len(fields) > 3 {
			mounts[fields[1]] = []string{fields[2], strings.SplitN(fields[3], ",", 2)[0]}
		}
	}
	if root := mounts["/"]; len(root) < 2 || root[1] != "ro" {
		t.Errorf("%s has the root file system %v, want a read-only one", c.program, root)
	}
	if socket := mounts["/run"]; len(socket) < 2 || socket[0] != "tmpfs" || socket[1] != "rw" {
		t.Errorf("%s has %v at /run, want a volume in memory", c.program, socket)
	}
	// The kubelet sets the group of a volume's folders to be inherited, which is the 2.
	folder := "/proc/" + c.pid + "/root/run/slipway"
	have := docker(t, nil, "exec", c.cluster.controlPlane(), "stat", "--format", "%F of %u, %a", folder, folder+"/launcher.sock")
	if want := "directory of 65532, 2700\nsocket of 65532, 600\n"; have != want {
		t.Errorf("%s sees %q in /run/slipway, want %q", c.program, have, want)
	}
}

// containersHold holds both containers to what docs/operations.md says of them. AWS's credentials are the launcher's alone.
func (c *cluster) containersHold(t *testing.T) {
	t.Helper()
	launcher, scheduler := c.launcher(t), c.scheduler(t)
	launcher.confined(t)
	scheduler.confined(t)
	if !strings.Contains(launcher.proc(t, "environ"), "\x00AWS_SECRET_ACCESS_KEY=") {
		t.Error("the launcher has no credentials of AWS, so that a scheduler without them shows nothing")
	}
	for variable := range strings.SplitSeq(scheduler.proc(t, "environ"), "\x00") {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Errorf("the scheduler has the launcher's %s", name)
		}
	}
}
