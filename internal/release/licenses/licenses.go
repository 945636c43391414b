// Package licenses finds the license texts of everything that a binary links: Go itself, each module, and packages below a module that have
// a text of their own. The texts travel with the binary, as those licenses demand.
package licenses

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// Texts are license files by their path: MODULE@VERSION/LICENSE, std@VERSION/LICENSE for Go itself.
type Texts map[string][]byte

// Source is where the texts of a module and of its linked packages are looked for.
type Source struct {
	// Name is MODULE@VERSION.
	Name string
	// Root is the module's folder.
	Root string
	// Packages are the folders of the linked packages, in Root or below.
	Packages []string
}

// Exceptions returns the modules that may lack a license text, each with the reason. It is empty: all modules have one.
func Exceptions() map[string]string { return map[string]string{} }

var text = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying|notice|patents|copyright)s?([.-].*)?$`)

// Collect reads the texts of all sources. A source without any is an error, unless the exceptions name its module.
func Collect(sources []Source, exceptions map[string]string) (Texts, error) {
	out := Texts{}
	var missing []error
	for _, s := range sources {
		folders := map[string]bool{}
		for _, dir := range append([]string{s.Root}, s.Packages...) {
			for ; strings.HasPrefix(dir, s.Root) && !folders[dir]; dir = filepath.Dir(dir) {
				folders[dir] = true
			}
		}
		found := len(out)
		for dir := range folders {
			if err := out.read(s, dir); err != nil {
				return nil, err
			}
		}
		if module, _, _ := strings.Cut(s.Name, "@"); len(out) == found && exceptions[module] == "" {
			missing = append(missing, fmt.Errorf("reading the license of %s: no text in %s", s.Name, s.Root))
		}
	}
	return out, errors.Join(missing...)
}

// read adds the texts of one folder.
func (t Texts) read(s Source, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the license of %s: %w", s.Name, err)
	}
	below, err := filepath.Rel(s.Root, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !text.MatchString(e.Name()) || path.Ext(e.Name()) == ".go" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("reading the license of %s: %w", s.Name, err)
		}
		t[path.Join(s.Name, filepath.ToSlash(below), e.Name())] = content
	}
	return nil
}

// Check returns an error unless each module in the build info of a binary has a text or an exception.
func (t Texts) Check(info *debug.BuildInfo, exceptions map[string]string) error {
	has := map[string]bool{}
	for name := range t {
		has[moduleOf(name)] = true
	}
	want := []string{"std@" + info.GoVersion, info.Main.Path}
	for _, d := range info.Deps {
		want = append(want, used(d))
	}
	var missing []error
	for _, name := range want {
		if module, _, _ := strings.Cut(name, "@"); !has[name] && exceptions[module] == "" {
			missing = append(missing, fmt.Errorf("checking licenses of %s: no text of %s", info.Path, name))
		}
	}
	return errors.Join(missing...)
}

// moduleOf returns MODULE@VERSION of a text's path. The program's own module has no version.
func moduleOf(name string) string {
	before, after, versioned := strings.Cut(name, "@")
	if !versioned {
		return path.Dir(name)
	}
	version, _, _ := strings.Cut(after, "/")
	return before + "@" + version
}

func used(m *debug.Module) string {
	if m.Replace != nil {
		m = m.Replace
	}
	return m.Path + "@" + m.Version
}

// Linked lists the sources of a command of this module, by asking the go command for the packages that it links.
func Linked(ctx context.Context, command, goos, goarch string) ([]Source, error) {
	const format = "{{with .Module}}{{with .Replace}}{{.Path}}@{{.Version}}{{else}}{{if .Main}}{{.Path}}{{else}}{{.Path}}@{{.Version}}{{end}}{{end}}\t{{.Dir}}{{end}}\t{{.Dir}}"
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f", format, command)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	cmd.Stderr = os.Stderr
	listed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages of %s: %w", command, err)
	}
	environment, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("reading go env: %w", err)
	}
	fields := strings.Fields(string(environment))
	if len(fields) != 2 {
		return nil, fmt.Errorf("reading go env: GOROOT and GOVERSION are expected, found %q", environment)
	}
	out := []Source{{Name: "std@" + fields[1], Root: fields[0]}}
	at := map[string]int{}
	for line := range strings.Lines(string(listed)) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		if len(parts) != 3 {
			continue // A package of Go itself has no module.
		}
		if _, seen := at[parts[0]]; !seen {
			at[parts[0]] = len(out)
			out = append(out, Source{Name: parts[0], Root: parts[1]})
		}
		s := &out[at[parts[0]]]
		s.Packages = append(s.Packages, parts[2])
	}
	slices.SortFunc(out, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
