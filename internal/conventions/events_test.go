package conventions_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// eventReason is how a reason of an Event looks.
var eventReason = regexp.MustCompile(`^[A-Z][a-z]+[A-Za-z]*$`)

// docs/events.md lists the reasons of all Events that the code records, and no others.
func TestEventsAreDocumented(t *testing.T) {
	documented := documentedEvents(t)
	announced, literals := map[string]string{}, map[string]bool{}
	_, files := tree(t)
	for _, f := range files {
		if !f.isTest() && (strings.HasPrefix(f.path, "launcher/") || strings.HasPrefix(f.path, "plugin/")) {
			readEvents(f.file, announced, literals)
		}
	}
	for reason, where := range announced {
		if !documented[reason] {
			t.Errorf("docs/events.md does not list %s, which package %s writes", reason, where)
		}
	}
	for reason := range documented {
		if !literals[reason] {
			t.Errorf("docs/events.md lists %s, which no package writes", reason)
		}
	}
	if len(announced) < 10 {
		t.Errorf("only %d reasons were found: %v", len(announced), announced)
	}
}

// docs/events.md names the packages that write each Event: where its message is changed.
func TestEventsNameTheirPackages(t *testing.T) {
	literals := map[string]map[string]bool{}
	_, files := tree(t)
	for _, f := range files {
		if f.isTest() {
			continue
		}
		if literals[f.dir()] == nil {
			literals[f.dir()] = map[string]bool{}
		}
		readEvents(f.file, map[string]string{}, literals[f.dir()])
	}
	rows := regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|.*\\| (`[^|]+`) \\|$").FindAllStringSubmatch(docsPage(t, "events.md"), -1)
	for _, row := range rows {
		for dir := range strings.SplitSeq(row[2], ", ") {
			if dir = strings.Trim(dir, "`"); !literals[dir][row[1]] {
				t.Errorf("docs/events.md: package %s does not write %s", dir, row[1])
			}
		}
	}
	if len(rows) < len(documentedEvents(t)) {
		t.Errorf("%d rows name a package, of %d Events", len(rows), len(documentedEvents(t)))
	}
}

// docs/compatibility.md says of each of Karpenter's Events what docs/events.md says.
func TestEventsAreComparedAsTheyAre(t *testing.T) {
	documented, compared := documentedEvents(t), 0
	_, section, found := strings.Cut(docsPage(t, "compatibility.md"), "\n## Events\n")
	if !found {
		t.Fatal("docs/compatibility.md has no section Events")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([a-z ]+) \\|").FindAllStringSubmatch(section, -1) {
		for _, reason := range regexp.MustCompile("[A-Za-z]+").FindAllString(row[1], -1) {
			compared++
			if there := row[2] != "not yet"; there != documented[reason] {
				t.Errorf("docs/compatibility.md says %q of %s, which docs/events.md has: %v", row[2], reason, documented[reason])
			}
		}
	}
	if compared < 30 {
		t.Errorf("only %d Events were compared", compared)
	}
}

// documentedEvents are the reasons that docs/events.md lists.
func documentedEvents(t *testing.T) map[string]bool {
	t.Helper()
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)`").FindAllStringSubmatch(docsPage(t, "events.md"), -1) {
		documented[row[1]] = true
	}
	return documented
}

func docsPage(t *testing.T, name string) string {
	t.Helper()
	return fileOf(t, "docs", name)
}

// readEvents collects the string literals of a file, and of them those that are the reason of an Event where it is announced.
func readEvents(file *ast.File, announced map[string]string, literals map[string]bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BasicLit:
			literals[text(x)] = true
		case *ast.KeyValueExpr:
			if key, ok := x.Key.(*ast.Ident); ok && (key.Name == "event" || key.Name == "EventReason") {
				note(announced, file, x.Value)
			}
		case *ast.CallExpr:
			if f, ok := x.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "Eventf" || f.Sel.Name == "event") {
				for _, arg := range x.Args {
					note(announced, file, arg)
				}
			}
		}
		return true
	})
}

func note(announced map[string]string, file *ast.File, value ast.Expr) {
	// The action of the newer API, which every Event of the scheduler carries, is no reason.
	if reason := text(value); eventReason.MatchString(reason) && reason != "Scheduling" {
		announced[reason] = file.Name.Name
	}
}

func text(value ast.Expr) string {
	literal, ok := value.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return s
}
