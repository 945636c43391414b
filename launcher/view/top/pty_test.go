package top_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"github.com/slipway-k8s/slipway/launcher/view/top"
)

// attached is the view at work on a pseudo-terminal of 80 columns and 24 rows, and a terminal emulator that shows what it writes.
type attached struct {
	t        *testing.T
	keys     *os.File
	emulator *vt.SafeEmulator
	ended    chan error
}

func attach(t *testing.T, s top.Snapshot) *attached {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(slave, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	a := &attached{t: t, keys: master, emulator: vt.NewSafeEmulator(80, 24), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		a.ended <- top.Run(ctx, top.Config{
			Interval: time.Hour, Load: func() (top.Snapshot, error) { return s, nil },
			Explain: func(pod string) (string, error) {
				return "Pod " + pod + ": pending\n  Unschedulable, for 2s:\n    because", nil
			},
		}, slave, slave)
	}()
	copied := make(chan struct{}, 2)
	copies := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from) // It ends with an error when the terminal is closed.
		copied <- struct{}{}
	}
	go copies(a.emulator, master)
	go copies(master, a.emulator) // A terminal answers questions, such as what it is.
	t.Cleanup(func() {
		cancel()
		_ = slave.Close()
		_ = master.Close()
		// The emulator's Close races with a Read that waits: an answer that cannot be written any more ends it.
		_, _ = a.emulator.Write([]byte("\x1b[c"))
		<-copied
		<-copied
		_ = a.emulator.Close()
	})
	return a
}

// types writes the bytes that keys send: those of several letters are in brackets.
func (a *attached) types(keys string) {
	a.t.Helper()
	bytes := strings.NewReplacer("<down>", "\x1b[B", "<up>", "\x1b[A", "<enter>", "\r", "<esc>", "\x1b", "<pgdown>", "\x1b[6~", "<end>", "\x1b[F", "<home>", "\x1b[H",
		"<wheel down>", "\x1b[<65;10;10M", "<wheel up>", "\x1b[<64;10;10M", "<click>", "\x1b[<0;10;6M\x1b[<0;10;6m").Replace(keys)
	if _, err := a.keys.WriteString(bytes); err != nil {
		a.t.Fatal(err)
	}
}

// shows waits until the terminal shows a screen of testdata.
func (a *attached) shows(name string) {
	a.t.Helper()
	want, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		a.t.Fatal(err)
	}
	a.await(name, func(screen string) bool { return screen == trimmed(string(want)) })
}

// await waits until the terminal shows what is asked for. Keys that are typed before the program has drawn may be lost: until it has the
// terminal in raw mode, they are the line discipline's.
func (a *attached) await(what string, shown func(screen string) bool) {
	a.t.Helper()
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got = trimmed(ansi.Strip(a.emulator.Render())); shown(got) {
			return
		}
	}
	a.t.Fatalf("the terminal does not show %s, but\n%s", what, got)
}

// trimmed returns a screen without empty lines at its end, and lines without spaces at theirs.
func trimmed(screen string) string {
	var lines []string
	for line := range strings.SplitSeq(screen, "\n") {
		lines = append(lines, strings.TrimRight(line, " \r"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// Screens, keys and the mouse are the same on a real terminal, which is left as it was.
func TestPseudoTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "1")
	four := []float64{0.04, 0.08, 0.16, 0.32}
	a := attach(t, cluster(four...))
	a.shows("cluster")
	a.types("p<click>")
	a.shows("by_price")
	a.types("<click><down>")
	a.shows("node")
	a.types("<enter>")
	a.shows("pod")
	a.types("q")
	if err := <-a.ended; err != nil {
		t.Errorf("quitting: %v", err)
	}

	a = attach(t, cluster(four...))
	a.shows("cluster")
	a.types("/1b")
	a.shows("filter")
	// Raw mode has no line editing, and Ctrl-C is a key.
	a.types("\x03")
	if err := <-a.ended; err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}

	many := make([]float64, 60)
	for i := range many {
		many[i] = 0.01 * float64(i+1)
	}
	a = attach(t, cluster(many...))
	a.await("the first nodes", func(screen string) bool { return strings.Contains(screen, "nodes 1 to 16 of 60") })
	a.types(strings.Repeat("<wheel down>", 80))
	a.shows("last")
	a.types(strings.Repeat("<wheel up>", 80) + "c<pgdown><pgdown>")
	a.shows("many")
	a.types("q")
	if err := <-a.ended; err != nil {
		t.Errorf("quitting: %v", err)
	}
}
