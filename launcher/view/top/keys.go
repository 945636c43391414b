package top

import (
	tea "charm.land/bubbletea/v2"
)

// help is the page behind the key ?.
const help = `↑ ↓ or k j     select a row, as do a click, the mouse wheel, PgUp, PgDn, Home
               and End
Enter          open a row, as does a click on the selected one: a node shows
               its pods, a pod or pending pods why they are where they are,
               other rows their whole text
Esc            go back; clear the filter
/              filter rows by words: names, types, zones, states, reasons
c m p a n      sort nodes by CPU, memory, price, age, name
t z o s        sort nodes by type, zone, NodePool, state
               The same key again turns the order around.
?              show this page
q, Ctrl-C      quit

Prices are USD per hour of the node with its volumes, in brackets before EC2
has launched it. CPU and MEM are what the node's pods request of its
allocatable. PODS counts those on the node, and after a plus those that it is
launched for. A node is recorded, launched, booting, joined, ready and, at its
end, terminating. One of a standby buffer is asleep between joined and launched.`

// key handles a key, and returns what is to be read because of it.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return tea.Quit
	}
	if m.cluster.typing {
		m.typed(k)
		return nil
	}
	if by, ok := m.steps()[k.String()]; ok {
		m.move(by)
		return nil
	}
	switch k.String() {
	case "q":
		return tea.Quit
	case "?":
		if m.screen != screenText {
			m.show("Keys of slipway top", help)
		}
	case "esc", "backspace", "left":
		m.back()
	case "enter", "right":
		return m.open()
	case "/":
		m.cluster.typing = m.screen == screenCluster
	default:
		if m.screen == screenCluster {
			m.cluster.sort(k.String())
		}
	}
	return nil
}

// steps are how far keys move the cursor.
func (m *Model) steps() map[string]int {
	page := m.style.height / 2
	return map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "space": page, "home": -far, "g": -far, "end": far, "G": far,
	}
}

// move moves the cursor, or scrolls a page of text.
func (m *Model) move(by int) {
	switch m.screen {
	case screenText:
		m.text.scroll = max(min(m.text.scroll+by, far), 0)
	case screenNode:
		m.node.cursor.move(podKeys(m.node.pods(&m.now)), by)
	default:
		m.cluster.cursor.move(keysOf(m.cluster.items()), by)
	}
}

// click selects the row on a line of the screen, and opens the one that is selected already.
func (m *Model) click(line int) tea.Cmd {
	again := false
	switch m.screen {
	case screenNode:
		again = m.node.cursor.click(podKeys(m.node.pods(&m.now)), line)
	case screenCluster:
		again = m.cluster.cursor.click(keysOf(m.cluster.items()), line)
	default:
	}
	if again {
		return m.open()
	}
	return nil
}

// back leaves a screen, or the filter.
func (m *Model) back() {
	switch m.screen {
	case screenText:
		m.screen = m.text.back
	case screenNode:
		m.screen = screenCluster
	default:
		m.cluster.filter = ""
	}
}

// open opens the selected row.
func (m *Model) open() tea.Cmd {
	switch m.screen {
	case screenNode:
		pods := m.node.pods(&m.now)
		if at := m.node.cursor.in(podKeys(pods)); at < len(pods) {
			return m.explain(pods[at].Namespace + "/" + pods[at].Name)
		}
	case screenCluster:
		items := m.cluster.items()
		at := m.cluster.cursor.in(keysOf(items))
		if at >= len(items) {
			return nil
		}
		switch it := items[at]; {
		case it.node != nil:
			m.screen, m.node = screenNode, node{claim: it.node.NodeClaim}
		case it.pod != "":
			return m.explain(it.pod)
		default:
			m.show(it.title, it.line)
		}
	default:
	}
	return nil
}

// typed handles a key while the filter is typed.
func (m *Model) typed(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		m.cluster.typing = false
	case "esc":
		m.cluster.typing, m.cluster.filter = false, ""
	case "backspace":
		if r := []rune(m.cluster.filter); len(r) > 0 {
			m.cluster.filter = string(r[:len(r)-1])
		}
	default:
		if len(m.cluster.filter) < longestFilter {
			m.cluster.filter += k.Text
		}
	}
}

// longestFilter is how long a filter may be, in bytes.
const longestFilter = 100
