package page

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// folder is where `make ui-install` puts the page's sources with what they need.
const folder = "../../.cache/ui"

// browser is Chromium with one page, driven by browser.mjs.
type browser struct {
	t   *testing.T
	url string
	in  io.WriteCloser
	out *bufio.Scanner
	// shots is the folder of screenshots; empty for none.
	shots string
}

// command is one of browser.mjs. Its fields are described there.
type command struct {
	Open       string   `json:"open,omitempty"`
	Size       []int    `json:"size,omitempty"`
	Scheme     string   `json:"scheme,omitempty"`
	See        []string `json:"see,omitempty"`
	Gone       []string `json:"gone,omitempty"`
	Within     int64    `json:"within,omitempty"`
	Click      string   `json:"click,omitempty"`
	Fill       string   `json:"fill,omitempty"`
	Text       string   `json:"text,omitempty"`
	Press      string   `json:"press,omitempty"`
	Until      string   `json:"until,omitempty"`
	Follow     bool     `json:"follow,omitempty"`
	Axe        bool     `json:"axe,omitempty"`
	Screenshot string   `json:"screenshot,omitempty"`
	Whole      bool     `json:"whole,omitempty"`
}

// started starts the browser for the page at a URL.
func started(t *testing.T, url string) *browser {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", "browser.mjs")
	cmd.Dir, cmd.Stderr = folder, t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		late := time.AfterFunc(time.Minute, cancel)
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the browser: %v", err)
		}
		cancel()
	})
	b := &browser{t: t, url: url, in: in, out: bufio.NewScanner(out), shots: flag.Lookup("page.screenshots").Value.String()}
	b.out.Buffer(nil, 1<<20)
	b.window(1280, 900, "light")
	return b
}

// does has the browser do something, and returns why it could not.
func (b *browser) does(c command) string {
	b.t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, '\n')); err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
	if !b.out.Scan() {
		b.t.Fatalf("%s: the browser has ended: %v", text, b.out.Err())
	}
	var answer struct{ Error string }
	if err := json.Unmarshal(b.out.Bytes(), &answer); err != nil {
		b.t.Fatalf("%s: %v: %s", text, err, b.out.Text())
	}
	return answer.Error
}

// must does something that has to be possible.
func (b *browser) must(c command) {
	b.t.Helper()
	if problem := b.does(c); problem != "" {
		b.t.Fatalf("%+v: %s", c, problem)
	}
}

func (b *browser) window(width, height int, scheme string) {
	b.t.Helper()
	b.must(command{Size: []int{width, height}, Scheme: scheme})
}

// open opens a view by its address behind the number sign.
func (b *browser) open(view string) { b.t.Helper(); b.must(command{Open: b.url + view}) }

// sees waits until the page has all texts. A browser on a busy machine is slow: what takes long only fails after minutes.
func (b *browser) sees(texts ...string) {
	b.t.Helper()
	b.must(command{See: texts, Within: patience.Milliseconds()})
}

// settled waits until the page waits for nothing.
func (b *browser) settled() {
	b.t.Helper()
	b.must(command{Gone: []string{"Asking the launcher", "The planner looks for one", "Planning…"}, Within: patience.Milliseconds()})
}

func (b *browser) click(name string) { b.t.Helper(); b.must(command{Click: name}) }

func (b *browser) fill(label, text string) { b.t.Helper(); b.must(command{Fill: label, Text: text}) }

// reach presses Tab until something has the focus, by its text or label, and what has it can be seen to have it.
func (b *browser) reach(text string) {
	b.t.Helper()
	b.must(command{Press: "Tab", Until: text, Within: patience.Milliseconds()})
}

// enter presses Enter.
func (b *browser) enter() { b.t.Helper(); b.must(command{Press: "Enter"}) }

// shot keeps a screenshot of the window, where they are wanted.
func (b *browser) shot(name string) { b.t.Helper(); b.keep(name, false) }

// keep keeps a screenshot of the window or of the whole page, where they are wanted.
func (b *browser) keep(name string, whole bool) {
	b.t.Helper()
	if b.shots == "" {
		return
	}
	file, err := filepath.Abs(filepath.Join(b.shots, name+".png"))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.must(command{Screenshot: file, Whole: whole})
}

// axe looks at a view in light and dark, on a wide screen, a narrow one and a phone's. Unless all is looked at, that is a wide
// one in light and a phone's in dark.
func (b *browser) axe(name string) {
	b.t.Helper()
	for _, w := range []struct {
		width, height int
		scheme        string
		brief         bool
	}{{1280, 900, "light", true}, {390, 844, "dark", true}, {1280, 900, "dark", false}, {390, 844, "light", false}, {1240, 900, "light", false}, {768, 1024, "light", false}} {
		if !long() && !w.brief {
			continue
		}
		b.window(w.width, w.height, w.scheme)
		if problem := b.does(command{Axe: true}); problem != "" {
			b.t.Errorf("%s, %s, %d px:\n%s", name, w.scheme, w.width, strings.TrimSpace(problem))
		}
		if long() {
			b.keep(fmt.Sprintf("looks/%s-%d-%s", strings.NewReplacer(" ", "-", ",", "").Replace(name), w.width, w.scheme), true)
		}
	}
	b.window(1280, 900, "light")
}
