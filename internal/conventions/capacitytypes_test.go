package conventions_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// capacityTypeFiles are the files that name a capacity type, with what a new one adds there. It is empty where a new one adds nothing.
func capacityTypeFiles() map[string]string {
	return map[string]string{
		"launcher/catalog/capacitytype.go":  "its name, its order and what the planner must know of it",
		"launcher/aws/capacitytype.go":      "where EC2 offers it, its price, the CreateFleet call, reading it back",
		"plugin/simulate/market/market.go":  "its prices offline",
		"launcher/catalog/builtin/types.go": "", // How the families that are built in are sold today.
		"launcher/convert/nodepool.go":      "", // The default of v1beta1, which does not change.
		"launcher/cloud/cloudtest":          "", // Contract tests.
		"plugin/verify/verifytest":          "", // A fixture of tests.
	}
}

// A new capacity type touches at most three files: no other names one. What the others must know of it is a field of
// catalog.CapacityType.
func TestCapacityTypesAreNamedInThreeFiles(t *testing.T) {
	allowed := capacityTypeFiles()
	used, touched := map[string]bool{}, 0
	_, files := tree(t)
	for _, f := range files {
		side, _, _ := strings.Cut(f.path, "/")
		if f.isTest() || f.generated() || !slices.Contains([]string{"cmd", "internal", "launcher", "plugin"}, side) {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if !namesCapacityType(n) {
				return true
			}
			if _, ok := allowed[f.path]; ok {
				used[f.path] = true
			} else if _, ok := allowed[f.dir()]; ok {
				used[f.dir()] = true
			} else {
				t.Errorf("%s names a capacity type: let it ask a field of catalog.CapacityType", f.path)
			}
			return true
		})
	}
	for path, adds := range allowed {
		if !used[path] {
			t.Errorf("%s names no capacity type any more: take it off the list", path)
		}
		if adds != "" {
			touched++
		}
	}
	if touched > 3 {
		t.Errorf("a new capacity type touches %d files, want 3 at most", touched)
	}
}

// namesCapacityType reports whether the node is a capacity type of Karpenter's API: the constant or its value.
func namesCapacityType(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		return slices.Contains([]string{"CapacityTypeReserved", "CapacityTypeSpot", "CapacityTypeOnDemand"}, n.Sel.Name)
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		return n.Kind == token.STRING && err == nil && slices.Contains([]string{"reserved", "spot", "on-demand"}, text)
	}
	return false
}
