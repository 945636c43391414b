package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// screen is what is shown.
type screen int

const (
	screenCluster screen = iota
	screenNode
	screenText
)

// Model is the state of the view. It implements tea.Model.
type Model struct {
	c       Config
	style   style
	now     Snapshot
	loaded  bool
	screen  screen
	cluster cluster
	node    node
	text    text
}

// text is a page of text.
type text struct {
	title  string
	body   string
	scroll int
	back   screen
}

// New returns a view that has read nothing yet, of 80 columns and 24 rows.
func New(c Config) *Model {
	return &Model{c: c, style: style{width: 80, height: 24, colors: c.Color, blocks: !c.ASCII}, cluster: cluster{now: &view.Overview{}}}
}

type (
	// loadedMsg ends a Load.
	loadedMsg struct {
		snapshot Snapshot
		err      error
	}
	// tickMsg begins the next one.
	tickMsg struct{}
	// explainedMsg ends an Explain.
	explainedMsg struct{ pod, text string }
)

// Init implements tea.Model: it begins to read.
func (m *Model) Init() tea.Cmd { return m.load }

func (m *Model) load() tea.Msg {
	snapshot, err := m.c.Load()
	return loadedMsg{snapshot, err}
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.style.width, m.style.height = max(msg.Width, 20), max(msg.Height, 6)
	case loadedMsg:
		if m.cluster.failed = msg.err; msg.err == nil {
			m.now, m.loaded = msg.snapshot, true
			m.cluster.now = &m.now.Overview
		}
		return m, tea.Tick(m.c.Interval, func(time.Time) tea.Msg { return tickMsg{} })
	case tickMsg:
		return m, m.load
	case explainedMsg:
		if m.screen == screenText && m.text.title == podTitle(msg.pod) {
			m.text.body = msg.text
		}
	case tea.MouseWheelMsg:
		switch msg.Button {
		case tea.MouseWheelUp:
			m.move(-3)
		case tea.MouseWheelDown:
			m.move(3)
		default:
		}
	case tea.MouseClickMsg:
		if msg.Button == tea.MouseLeft {
			return m, m.click(msg.Y)
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// View implements tea.Model.
func (m *Model) View() tea.View {
	out := tea.NewView(strings.Join(m.lines(), "\n"))
	out.AltScreen, out.MouseMode, out.WindowTitle = true, tea.MouseModeCellMotion, "slipway top"
	return out
}

// lines are those of the screen: as many as it has at most, none wider than it is.
func (m *Model) lines() []string {
	var out []string
	switch {
	case m.screen == screenText:
		out = m.textLines()
	case !m.loaded && m.cluster.failed == nil:
		out = []string{"Reading the cluster ..."}
	case !m.loaded:
		out = append([]string{"The cluster cannot be read:"}, wrap(quoted(m.cluster.failed.Error()), m.style.width)...)
	case m.screen == screenNode:
		out = m.node.lines(m.style, &m.now)
	default:
		out = m.cluster.lines(m.style)
	}
	if len(out) > m.style.height {
		out = out[:m.style.height]
	}
	for i := range out {
		out[i] = cut(out[i], m.style.width)
	}
	return out
}

// show opens a page of text.
func (m *Model) show(title, body string) {
	m.text = text{title: title, body: body, back: m.screen}
	m.screen = screenText
}

// explain opens the explanation of a pod.
func (m *Model) explain(pod string) tea.Cmd {
	m.show(podTitle(pod), "Reading ...")
	return func() tea.Msg {
		body, err := m.c.Explain(pod)
		if err != nil {
			body = err.Error()
		}
		return explainedMsg{pod, body}
	}
}

// podTitle is the command that prints the same.
func podTitle(pod string) string { return "slipway explain pod " + pod }

// textLines are a page of text: its title, as much of it as fits from where it is scrolled to, and the keys.
func (m *Model) textLines() []string {
	var body []string
	for line := range strings.SplitSeq(strings.TrimRight(m.text.body, "\n"), "\n") {
		body = append(body, wrap(quoted(line), m.style.width)...)
	}
	size := m.style.height - 3
	m.text.scroll = max(min(m.text.scroll, len(body)-size), 0)
	shown := body[m.text.scroll:min(m.text.scroll+size, len(body))]
	where := ""
	if len(shown) < len(body) {
		where = fmt.Sprintf("   lines %d to %d of %d", m.text.scroll+1, m.text.scroll+len(shown), len(body))
	}
	return m.style.page([]string{m.style.bold(quoted(m.text.title)), ""}, shown, "esc back   ↑↓ scroll   q quit"+where)
}
