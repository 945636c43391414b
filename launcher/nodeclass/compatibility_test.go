package nodeclass_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// row is one line of a table of docs/compatibility.md.
type row struct {
	verdict, how string
	// tests are the Go tests and scenario files that the row names.
	tests []string
}

// compatibility reads the tables by section: the first column is the name, in backticks where it is one of an API.
func compatibility(t *testing.T) map[string]map[string]row {
	t.Helper()
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	out, section := map[string]map[string]row{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
			out[section] = map[string]row{}
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || len(cells) > 1 && strings.TrimSpace(cells[1]) == "verdict" {
			continue
		}
		if len(cells) != 4 {
			t.Errorf("%s: %d cells, want name, verdict, how and test: %s", section, len(cells), line)
			continue
		}
		parsed := row{verdict: strings.TrimSpace(cells[1]), how: strings.TrimSpace(cells[2])}
		for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[3], -1) {
			parsed.tests = append(parsed.tests, match[1])
		}
		for name := range strings.SplitSeq(strings.TrimSpace(cells[0]), ", ") {
			name = strings.Trim(name, "`")
			if _, twice := out[section][name]; twice {
				t.Errorf("%s: %s has two rows", section, name)
			}
			out[section][name] = parsed
		}
	}
	return out
}

// fields are the paths of all that a user writes or reads in an API type, as kubectl explain has them: of a type of
// Kubernetes' own the path ends at its name.
func fields(of reflect.Type, path string, add func(string)) {
	switch of.Kind() {
	case reflect.Pointer:
		fields(of.Elem(), path, add)
		return
	case reflect.Slice:
		if ours(of.Elem()) {
			fields(of.Elem(), path+"[]", add)
			return
		}
	case reflect.Struct:
		if ours(of) {
			for f := range of.Fields() {
				name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
				switch {
				case options == "inline" && name == "":
					fields(f.Type, path, add)
				case name != "-":
					fields(f.Type, path+"."+name, add)
				}
			}
			return
		}
	default:
	}
	add(path)
}

// ours reports whether a type is one of Karpenter's structs, or a pointer to one; a duration that may be Never is one value.
func ours(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && strings.Contains(t.PkgPath(), "karpenter") && t != reflect.TypeFor[karpv1.NillableDuration]()
}

// Every field of Karpenter's kinds has a row with what slipway does.
func TestEveryFieldHasARow(t *testing.T) {
	tables := compatibility(t)
	for kind, of := range map[string]map[string]reflect.Type{
		"EC2NodeClass": {"spec": reflect.TypeFor[awsv1.EC2NodeClassSpec](), "status": reflect.TypeFor[awsv1.EC2NodeClassStatus]()},
		"NodePool":     {"spec": reflect.TypeFor[karpv1.NodePoolSpec](), "status": reflect.TypeFor[karpv1.NodePoolStatus]()},
		"NodeOverlay":  {"spec": reflect.TypeFor[v1alpha1.NodeOverlaySpec](), "status": reflect.TypeFor[v1alpha1.NodeOverlayStatus]()},
		"NodeClaim":    {"spec": reflect.TypeFor[karpv1.NodeClaimSpec](), "status": reflect.TypeFor[karpv1.NodeClaimStatus]()},
	} {
		known := map[string]bool{}
		for part, typ := range of {
			fields(typ, part, func(path string) {
				known[path] = true
				if _, ok := tables[kind][path]; !ok {
					t.Errorf("docs/compatibility.md, section %s, has no row for `%s`", kind, path)
				}
			})
		}
		for name := range tables[kind] {
			if !known[name] {
				t.Errorf("docs/compatibility.md, section %s: %s has no such field as `%s`", kind, kind, name)
			}
		}
	}
}

// So has every label that may stand in a requirement, and every condition.
func TestEveryLabelAndConditionHasARow(t *testing.T) {
	tables := compatibility(t)
	need := func(section string, names ...string) {
		t.Helper()
		for _, name := range names {
			if _, ok := tables[section][name]; !ok {
				t.Errorf("docs/compatibility.md, section %s, has no row for `%s`", section, name)
			}
		}
	}
	need("Labels", karpv1.WellKnownLabels.UnsortedList()...)
	need("Labels", slices.Collect(maps.Keys(karpv1.NormalizedLabels))...)
	need("Labels", karpv1.NodeInitializedLabelKey, karpv1.NodeRegisteredLabelKey, karpv1.NodeDoNotSyncTaintsLabelKey, awsv1.LabelNodeClass)
	need("Resources", names(karpv1.WellKnownResources.UnsortedList())...)
	need("Resources", names(awsv1.WellKnownResources.UnsortedList())...)
	need("Annotations", karpv1.DoNotDisruptAnnotationKey, karpv1.NodePoolHashAnnotationKey, karpv1.NodePoolHashVersionAnnotationKey,
		karpv1.NodeClaimTerminationTimestampAnnotationKey, karpv1.NodeClaimMinValuesRelaxedAnnotationKey, karpv1.DRADriversAnnotationKey,
		awsv1.AnnotationEC2NodeClassHash, awsv1.AnnotationEC2NodeClassHashVersion, awsv1.AnnotationInstanceTagged, awsv1.AnnotationInstanceProfile)
	need("Conditions", awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady, awsv1.ConditionTypeAMIsReady,
		awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypeCapacityReservationsReady, awsv1.ConditionTypeValidationSucceeded,
		awsv1.ConditionTypePlacementGroupReady, karpv1.ConditionTypeNodeClassReady, karpv1.ConditionTypeNodeRegistrationHealthy,
		karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized, karpv1.ConditionTypeConsolidatable,
		karpv1.ConditionTypeDrifted, karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating,
		karpv1.ConditionTypeConsistentStateFound, karpv1.ConditionTypeDisruptionReason)
	need("Tags", awsv1.NodePoolTagKey, awsv1.NodeClassTagKey, awsv1.NodeClaimTagKey, awsv1.EKSClusterNameTagKey, awsv1.NameTagKey)
}

func names(list []corev1.ResourceName) []string {
	out := make([]string, 0, len(list))
	for _, n := range list {
		out = append(out, string(n))
	}
	return out
}

// goTests are the names of all Go tests of the module.
func goTests(t *testing.T, root string) map[string]bool {
	t.Helper()
	out, function := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root || entry.Name() == "bin"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, match := range function.FindAllStringSubmatch(string(text), -1) {
			out[match[1]] = true
		}
		return err
	})
	if err != nil || len(out) < 100 {
		t.Fatalf("%d Go tests below %s, %v", len(out), root, err)
	}
	return out
}

// untested returns why no test shows a row: the row is marked as working and names no test, or one that does not exist.
func untested(r row, known func(test string) bool) string {
	if r.verdict == "works" && len(r.tests) == 0 {
		return "works, but names no test"
	}
	for _, test := range r.tests {
		if !known(test) {
			return "there is no test " + test
		}
	}
	return ""
}

// What works is shown by a test that exists: a Go test of the module, or a scenario file by its path.
func TestRowsNameTheirTests(t *testing.T) {
	const root = "../.."
	tests := goTests(t, root)
	known := func(test string) bool {
		if !strings.Contains(test, "/") {
			return tests[test]
		}
		info, err := os.Stat(filepath.Join(root, test))
		return err == nil && info.Mode().IsRegular() && strings.Contains(test, "/testdata/")
	}
	for section, table := range compatibility(t) {
		for name, r := range table {
			if why := untested(r, known); why != "" {
				t.Errorf("docs/compatibility.md, section %s, %s: %s", section, name, why)
			}
		}
	}
	for _, r := range []row{{verdict: "works"}, {verdict: "differs", tests: []string{"TestThatIsNotThere"}}, {verdict: "works", tests: []string{"README.md", "docs/none.txt"}}} {
		if untested(r, known) == "" {
			t.Errorf("%+v is not found", r)
		}
	}
}

// A row has one of three states, and if slipway differs from Karpenter, the difference.
func TestRowsSayWhatHappens(t *testing.T) {
	rows := 0
	for section, table := range compatibility(t) {
		for name, r := range table {
			rows++
			if !slices.Contains([]string{"works", "differs", "not yet"}, r.verdict) {
				t.Errorf("%s, `%s`: the verdict is %q", section, name, r.verdict)
			}
			if r.verdict != "works" && r.how == "" {
				t.Errorf("%s, `%s`: %s, but how?", section, name, r.verdict)
			}
		}
	}
	if rows < 200 {
		t.Errorf("only %d rows could be read", rows)
	}
}
