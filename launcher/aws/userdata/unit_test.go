package userdata

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// standIns are the commands that the unit runs on a node, by name. The API server's answers are what the test writes to the pipe watch. Each
// pull reports the number of pulls on the pipe told, and ends with a byte from the pipe end; each pause of the unit's loop is reported too.
// The test sets how full the disk is.
func standIns() map[string]string {
	return map[string]string{
		"curl": `case "$*" in
*watch=true*) exec cat "$WORLD/watch" ;;
*PullImage*)
  image=$(tr -dc 'a-z0-9./:-' | sed 's/.*\(example\.com.*\)/\1/')
  : >"$WORLD/running-${image##*/}"
  running=("$WORLD"/running-*)
  echo "$image ${#running[@]}" >"$WORLD/told"
  head -c 1 "$WORLD/end" >/dev/null
  rm "$WORLD/running-${image##*/}" ;;
esac`,
		"jq":    `case "$*" in *--unbuffered*) exec cat ;; esac`,
		"df":    `echo "Use%"; echo " $(cat "$WORLD/disk")%"`,
		"sleep": `echo pause >"$WORLD/told"; exec /bin/sleep 0.01`,
	}
}

// patience bounds the wait for the unit: after it the test has failed.
const patience = 5 * time.Minute

// machine is what the unit runs on.
type machine struct {
	t      *testing.T
	folder string
	pipes  map[string]*os.File
	told   *bufio.Reader
	unit   *exec.Cmd
}

// boot runs the unit on a machine whose disk is full to the given percentage.
func boot(t *testing.T, percent int) *machine {
	t.Helper()
	m := &machine{t: t, folder: t.TempDir(), pipes: map[string]*os.File{}}
	for name, text := range standIns() {
		m.write(name, "#!/bin/bash\n"+text+"\n")
	}
	m.write("kubeconfig", "    server: https://example.com\n    command: \"true\"\n")
	m.write("environment", "NODEADM_KUBELET_ARGS=--hostname-override=node-1 --image-credential-provider-config=/none\n")
	m.write("disk", strconv.Itoa(percent))
	for _, name := range []string{"watch", "told", "end"} {
		path := filepath.Join(m.folder, name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		// Open both ways, it lets everybody in at once and never ends.
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		m.pipes[name] = f
	}
	m.told = bufio.NewReader(m.pipes["told"])
	if err := m.pipes["told"].SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	m.start()
	return m
}

// start runs the script of the user data with only the node's paths replaced.
func (m *machine) start() {
	m.t.Helper()
	socket := filepath.Join(m.folder, "socket")
	listener, err := (&net.ListenConfig{}).Listen(m.t.Context(), "unix", socket)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = listener.Close() })
	script := prefetchScript
	for from, to := range map[string]string{
		"\nsocket=/run/containerd/containerd.sock\n": "\nsocket=" + socket + "\n",
		"\nkubeconfig=/var/lib/kubelet/kubeconfig\n": "\nkubeconfig=" + filepath.Join(m.folder, "kubeconfig") + "\n",
	} {
		if strings.Count(script, from) != 1 {
			m.t.Fatalf("the unit has no line %q", from)
		}
		script = strings.Replace(script, from, to, 1)
	}
	m.write("unit", script)
	output, err := os.Create(filepath.Join(m.folder, "output"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	// It is killed as systemd does it, with all that it started.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(m.folder, "unit"), "unit")
	cmd.Env = append(os.Environ(), "PATH="+m.folder+":"+os.Getenv("PATH"), "WORLD="+m.folder, "KUBELET_ENVIRONMENT="+filepath.Join(m.folder, "environment"))
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		cancel()
		m.t.Fatal(err)
	}
	m.unit = cmd
	m.t.Cleanup(func() {
		cancel()
		_ = cmd.Cancel()
		_ = cmd.Wait()
		if m.t.Failed() {
			m.t.Logf("the unit said:\n%s", m.output())
		}
	})
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.folder, name), []byte(text), 0o700); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) output() string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.folder, "output"))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

func (m *machine) say(pipe, text string) {
	m.t.Helper()
	if _, err := m.pipes[pipe].WriteString(text); err != nil {
		m.t.Fatal(err)
	}
}

// finish waits until the unit has ended of its own accord.
func (m *machine) finish() {
	m.t.Helper()
	if err := m.unit.Wait(); err != nil {
		m.t.Fatalf("the unit does not end: %v", err)
	}
}

// node makes the API server return the Node.
func (m *machine) node(ready bool, images ...string) {
	m.t.Helper()
	m.say("watch", fmt.Sprintf("%v %s\n", ready, strings.Join(images, " ")))
}

// next is the next thing that the unit does: image and number of pulls, or a pause.
func (m *machine) next() (image string, pulls int) {
	m.t.Helper()
	line, err := m.told.ReadString('\n')
	if err != nil {
		m.t.Fatal(err)
	}
	image, n, _ := strings.Cut(strings.TrimSpace(line), " ")
	pulls, _ = strconv.Atoi(n)
	return image, pulls
}

// pulls waits until so many more pulls have begun, and returns their images.
func (m *machine) pulls(n int) []string {
	m.t.Helper()
	var out []string
	for len(out) < n {
		image, running := m.next()
		if image == "pause" {
			continue
		}
		if out = append(out, image); running > 3 {
			m.t.Fatalf("%s is pulled beside %d others", image, running-1)
		}
	}
	return slices.Sorted(slices.Values(out))
}

// rounds waits for a few rounds of the unit's loop, in which it starts no pull.
func (m *machine) rounds(n int) {
	m.t.Helper()
	for range n {
		if image, _ := m.next(); image != "pause" {
			m.t.Fatalf("%s is pulled", image)
		}
	}
}

func pictures() []string {
	return []string{"example.com/a:1", "example.com/b:1", "example.com/c:1", "example.com/d:1", "example.com/e:1", "example.com/f:1"}
}

// The unit pulls three images at a time, in the order of the list, reads additions to the list while it runs, and starts no pull once the
// node is Ready.
func TestPullsAtATime(t *testing.T) {
	t.Parallel()
	m := boot(t, 69)
	m.node(false, pictures()[:5]...)
	if first := m.pulls(3); !slices.Equal(first, pictures()[:3]) {
		t.Errorf("%q were pulled first", first)
	}
	m.rounds(5)
	for _, want := range pictures()[3:5] {
		m.say("end", ".")
		if got := m.pulls(1); got[0] != want {
			t.Errorf("%s was pulled, want %s", got[0], want)
		}
	}
	m.node(false, pictures()...)
	m.say("end", ".")
	if got := m.pulls(1); got[0] != pictures()[5] {
		t.Errorf("%s was pulled, want %s", got[0], pictures()[5])
	}
	m.node(true, append(slices.Clone(pictures()), "example.com/late:1")...)
	m.say("end", "...")
	m.finish()
	for _, image := range pictures() {
		if strings.Count(m.output(), image) != 1 {
			t.Errorf("%s was not pulled once", image)
		}
	}
	if strings.Contains(m.output(), "late") {
		t.Error("an image was pulled on a node that is Ready")
	}
}

// A disk that is full to 70 percent gets no more images, whether it is so at first or becomes it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	m := boot(t, 69)
	m.node(false, pictures()[0])
	m.pulls(1)
	m.write("disk", "70")
	m.node(false, pictures()...)
	refused := map[string]bool{}
	for len(refused) < len(pictures())-1 {
		m.rounds(1)
		for _, image := range pictures() {
			if strings.Contains(m.output(), "not pulled, the disk is full to 70 percent: "+image+"\n") {
				refused[image] = true
			}
		}
	}
	m.say("end", ".")
	m.node(true)
	m.finish()
	if refused[pictures()[0]] {
		t.Errorf("what was pulled before the disk was full was refused as well: %v", slices.Sorted(maps.Keys(refused)))
	}
	if !strings.Contains(m.output(), "pulled after") {
		t.Error("what was begun was not ended")
	}
}
