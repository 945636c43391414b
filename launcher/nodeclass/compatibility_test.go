package nodeclass_test

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// row is one line of a table of docs/compatibility.md.
type row struct{ verdict, how string }

// compatibility reads the tables by section: the first column, in backticks, is the name.
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
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !strings.HasPrefix(line, "| `") {
			continue
		}
		for name := range strings.SplitSeq(strings.Trim(cells[0], "| "), ", ") {
			name = strings.Trim(name, "`")
			if _, twice := out[section][name]; twice {
				t.Errorf("%s: %s has two rows", section, name)
			}
			out[section][name] = row{strings.TrimSpace(cells[1]), strings.TrimSpace(strings.TrimSuffix(cells[2], "|"))}
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

// ours says whether a type is one of Karpenter's structs, or points to one; a duration that may be Never is one value.
func ours(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && strings.Contains(t.PkgPath(), "karpenter") && t != reflect.TypeFor[karpv1.NillableDuration]()
}

// Every field of Karpenter's three kinds has a row that says what slipway does with it.
func TestEveryFieldHasARow(t *testing.T) {
	tables := compatibility(t)
	for kind, of := range map[string]map[string]reflect.Type{
		"EC2NodeClass": {"spec": reflect.TypeFor[awsv1.EC2NodeClassSpec](), "status": reflect.TypeFor[awsv1.EC2NodeClassStatus]()},
		"NodePool":     {"spec": reflect.TypeFor[karpv1.NodePoolSpec](), "status": reflect.TypeFor[karpv1.NodePoolStatus]()},
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

// A row says one of three things, and where slipway is not like Karpenter, in what.
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
