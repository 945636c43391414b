package conventions_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// mostMethods is how many methods a type may have. What has more is several concepts that share their fields.
	mostMethods = 30
	// fewestFiles is from how many files on a package is judged: a small one is read as a whole.
	fewestFiles = 6
)

// overMethods lists the types that have more than mostMethods methods today. A number may only be lowered, and a type
// that is within the limit leaves the list.
func overMethods() map[string]int {
	return map[string]int{
		"e2e/aws.Server":                162,
		"e2e/sandbox.Sandbox":           64,
		"launcher/aws.Cloud":            82,
		"launcher/cloud/memory.Cloud":   38,
		"launcher/server.Server":        35,
		"launcher/terminate.Terminator": 42,
	}
}

// overCircle lists the packages in which more than half of the files refer to each other in a circle today, with the
// number of files in the largest circle. A number may only be lowered, and a package that is within the limit leaves the
// list.
func overCircle() map[string]int {
	return map[string]int{
		"e2e/aws":               31,
		"e2e/aws/model":         6,
		"e2e/controlplane":      6,
		"e2e/sandbox":           9,
		"launcher/aws":          28,
		"launcher/convert":      5,
		"launcher/interrupt":    4,
		"launcher/server":       12,
		"plugin/simulate/input": 7,
	}
}

// An engineer who changes one method of a type must understand how all its methods use its fields, and files that refer to each other in a
// circle can only be understood together.
func TestTypesAndPackagesCanBeUnderstoodInParts(t *testing.T) {
	fset, files := linuxTree(t)
	packages := checkTypes(fset, files)
	if len(packages) < 50 {
		t.Fatalf("found %d packages: this check looks at the wrong place", len(packages))
	}
	methods, promoted := map[string]int{}, map[string]int{}
	sizes, limits, circles := map[string]int{}, map[string]int{}, map[string][]string{}
	for _, p := range packages {
		p.countMethods(methods, promoted)
		refers := p.refers()
		circle := largestCircle(refers)
		sizes[p.dir], limits[p.dir], circles[p.dir] = len(circle), mostInCircle(len(refers)), circle
	}
	for _, c := range ratchet(methods, func(string) int { return mostMethods }, overMethods()) {
		t.Errorf("type %s\n\tmethods of its own; %d more are promoted from structs of its package that it embeds"+
			"\n\tto shrink it: give the methods that use some of the fields alone a type of their own, with those fields"+
			"\n\tthe list: overMethods in internal/conventions/shape_test.go", c, promoted[c.name])
	}
	for _, c := range ratchet(sizes, func(dir string) int { return limits[dir] }, overCircle()) {
		t.Errorf("package %s\n\tfiles that refer to each other in a circle: %s"+
			"\n\tto break it: move what both ends name to a file that names neither, pass it as an argument, or make it a package"+
			"\n\tthe list: overCircle in internal/conventions/shape_test.go", c, strings.Join(circles[c.name], " "))
	}
}

// mostInCircle returns how many of a package's files may refer to each other in a circle: half of them, or all of them in
// a package of fewer than fewestFiles.
func mostInCircle(files int) int {
	if files < fewestFiles {
		return files
	}
	return files / 2
}

// complaint is what is wrong with the number of one type or package.
type complaint struct{ name, text string }

// String returns the name and what is wrong.
func (c complaint) String() string { return c.name + ": " + c.text }

// ratchet compares the found numbers with the limit of each name and with the list of exceptions. It returns a complaint for each that is
// over its limit without being listed, that grew, or whose number in the list is too high or unnecessary.
func ratchet(found map[string]int, limit func(name string) int, listed map[string]int) []complaint {
	var out []complaint
	add := func(name, format string, args ...any) {
		out = append(out, complaint{name, fmt.Sprintf(format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		n, most := found[name], limit(name)
		was, isListed := listed[name]
		switch {
		case n <= most && isListed:
			add(name, "%d, within the limit of %d: take it off the list", n, most)
		case n <= most:
		case !isListed:
			add(name, "%d, the limit is %d", n, most)
		case n > was:
			add(name, "%d, more than the %d of the list, which may only shrink to the limit of %d", n, was, most)
		case n < was:
			add(name, "%d, fewer than the %d of the list: lower the number to %d", n, was, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if _, exists := found[name]; !exists {
			add(name, "does not exist: take it off the list")
		}
	}
	return out
}

// linuxTree parses the files that are built on Linux: those of other platforms define the same names.
func linuxTree(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	linux := build.Default
	linux.GOOS, linux.GOARCH, linux.CgoEnabled = "linux", "amd64", false
	fset, files := tree(t)
	return fset, slices.DeleteFunc(files, func(f source) bool {
		dir, name := filepath.Split(filepath.Join(moduleRoot(t), filepath.FromSlash(f.path)))
		built, err := linux.MatchFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		return !built
	})
}

// checked is one package of the module with its types, without its tests.
type checked struct {
	dir   string
	fset  *token.FileSet
	files []source
	pkg   *types.Package
	info  *types.Info
}

// own returns the files that are judged, by their names in the file set: those that define something and are written by
// hand.
func (p *checked) own() map[string]bool {
	out := map[string]bool{}
	for _, f := range p.files {
		if !f.generated() && len(f.file.Decls) > 0 {
			out[p.fileOf(f.file.Package)] = true
		}
	}
	return out
}

func (p *checked) fileOf(pos token.Pos) string { return p.fset.Position(pos).Filename }

// countMethods writes down how many methods each type declares, an interface's own ones included, in files that are
// judged, and how many more it has by embedding structs of its package.
func (p *checked) countMethods(declared, promoted map[string]int) {
	own := p.own()
	for _, name := range p.pkg.Scope().Names() {
		def, isType := p.pkg.Scope().Lookup(name).(*types.TypeName)
		if !isType || def.IsAlias() {
			continue
		}
		named, ok := def.Type().(*types.Named)
		if !ok {
			continue
		}
		of := named.Methods()
		if i, ok := named.Underlying().(*types.Interface); ok {
			of = i.ExplicitMethods()
		}
		key := p.dir + "." + name
		for m := range of {
			if own[p.fileOf(m.Pos())] {
				declared[key]++
			}
		}
		if _, ok := named.Underlying().(*types.Struct); ok {
			for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
				if m.Obj().Pkg() == p.pkg && len(m.Index()) > 1 {
					promoted[key]++
				}
			}
		}
	}
}

// refers lists, for each file that is judged, the other files of the package that define what it names: functions, types,
// constants, variables, methods and fields.
func (p *checked) refers() map[string][]string {
	own, seen := p.own(), map[string]map[string]bool{}
	for file := range own {
		seen[file] = map[string]bool{}
	}
	for ident, obj := range p.info.Uses {
		if obj.Pkg() != p.pkg || !obj.Pos().IsValid() {
			continue
		}
		from, to := p.fileOf(ident.Pos()), p.fileOf(obj.Pos())
		if from != to && own[from] && own[to] {
			seen[from][to] = true
		}
	}
	out := map[string][]string{}
	for from, to := range seen {
		var names []string
		for _, file := range slices.Sorted(maps.Keys(to)) {
			names = append(names, filepath.Base(file))
		}
		out[filepath.Base(from)] = names
	}
	return out
}

// largestCircle returns the largest strongly connected component (Tarjan 1972), sorted; a file alone is no circle.
func largestCircle(refers map[string][]string) []string {
	var stack, largest []string
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	var visit func(v string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, on[v] = append(stack, v), true
		for _, w := range refers[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		at := slices.Index(stack, v)
		component := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, w := range component {
			on[w] = false
		}
		if len(component) > 1 && len(component) > len(largest) {
			largest = component
		}
	}
	for _, v := range slices.Sorted(maps.Keys(refers)) {
		if index[v] == 0 {
			visit(v)
		}
	}
	slices.Sort(largest)
	return largest
}

// typeChecker resolves names within the module. Third-party packages are not loaded, which takes seconds instead of minutes: they cannot
// refer to ours, and only names reached through their generic types are lost.
type typeChecker struct {
	fset   *token.FileSet
	dirs   map[string][]source
	done   map[string]*checked
	stdlib types.Importer
}

// checkTypes resolves the names of all packages among the files, in the order of their folders.
func checkTypes(fset *token.FileSet, files []source) []*checked {
	c := typeChecker{fset: fset, dirs: map[string][]source{}, done: map[string]*checked{}, stdlib: importer.ForCompiler(fset, "source", nil)}
	for _, f := range files {
		if !f.isTest() {
			c.dirs[f.dir()] = append(c.dirs[f.dir()], f)
		}
	}
	var out []*checked
	for _, dir := range slices.Sorted(maps.Keys(c.dirs)) {
		out = append(out, c.check(dir))
	}
	return out
}

func (c *typeChecker) check(dir string) *checked {
	if p := c.done[dir]; p != nil {
		return p
	}
	p := &checked{dir: dir, fset: c.fset, files: c.dirs[dir], info: &types.Info{Uses: map[*ast.Ident]types.Object{}}}
	var parsed []*ast.File
	for _, f := range p.files {
		parsed = append(parsed, f.file)
	}
	// Names of packages that are not loaded cause errors, which are ignored: the compiler checks the code.
	config := types.Config{Importer: c, Error: func(error) {}, FakeImportC: true}
	p.pkg, _ = config.Check(module+"/"+dir, c.fset, parsed, p.info)
	c.done[dir] = p
	return p
}

// Import implements types.Importer.
func (c *typeChecker) Import(path string) (*types.Package, error) {
	if dir := strings.TrimPrefix(path, module+"/"); c.dirs[dir] != nil {
		return c.check(dir).pkg, nil
	}
	switch path {
	case "cmp", "iter", "maps", "slices", "sync", "sync/atomic":
		return c.stdlib.Import(path) // their generic functions and types carry ours
	}
	return nil, errors.New("left out")
}
