package convert_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/convert"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write what the scenarios of testdata give")
	os.Exit(m.Run())
}

// Each file of testdata is a scenario. Its comment says what it shows, args are the command line options, in* are the input files, want is
// the output, and findings are the printed findings.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scenarios: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { scenario(t, file) })
	}
}

func scenario(t *testing.T, file string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	inputs, options, want := sections(t, archive)
	result, err := convert.Convert(inputs, options)
	if err != nil {
		t.Fatal(err)
	}
	var findings strings.Builder
	for _, f := range result.Findings {
		findings.WriteString(f.String() + "\n")
	}
	rewrite := flag.Lookup("rewrite").Value.String() == "true"
	got := map[string]string{"want.yaml": string(result.Text), "findings": findings.String()}
	if diff := cmp.Diff(want, got); diff != "" && !rewrite {
		t.Errorf("-want +got\n%s", diff)
	}
	if !result.Incomplete() {
		decodeStrictly(t, result.Text)
	}
	if rewrite {
		archive.Files = archive.Files[:len(archive.Files)-len(want)]
		write(t, file, archive, got)
	}
	again, err := convert.Convert([]convert.Input{{Name: "again", Text: result.Text}}, options)
	if err != nil || again.Converted != 0 || !bytes.Equal(again.Text, result.Text) {
		t.Errorf("what is converted does not pass untouched: %d converted, %v", again.Converted, err)
	}
}

// sections returns the contents of the scenario's files: the input, the options, and the expected outputs by name.
func sections(t *testing.T, archive *txtar.Archive) (inputs []convert.Input, options convert.Options, want map[string]string) {
	t.Helper()
	want = map[string]string{}
	for _, f := range archive.Files {
		switch {
		case f.Name == "args":
			options = parseArgs(t, string(f.Data))
		case strings.HasPrefix(f.Name, "in"):
			inputs = append(inputs, convert.Input{Name: f.Name, Text: f.Data})
		default:
			want[f.Name] = string(f.Data)
		}
	}
	return inputs, options, want
}

// write appends the actual output to the scenario's input.
func write(t *testing.T, file string, archive *txtar.Archive, got map[string]string) {
	t.Helper()
	for _, name := range []string{"want.yaml", "findings"} {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got[name])})
	}
	if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

func parseArgs(t *testing.T, text string) convert.Options {
	t.Helper()
	var out convert.Options
	set := flag.NewFlagSet("args", flag.ContinueOnError)
	set.StringVar(&out.Role, "role", "", "")
	set.StringVar(&out.InstanceProfile, "instance-profile", "", "")
	set.StringVar(&out.AMIAlias, "ami-alias", "", "")
	if err := set.Parse(strings.Fields(text)); err != nil {
		t.Fatal(err)
	}
	return out
}

// decodeStrictly reads Karpenter's objects as its API types have them.
func decodeStrictly(t *testing.T, text []byte) {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var meta struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatal(err)
		}
		var object any
		switch meta.Kind {
		case "NodePool":
			object = &karpv1.NodePool{}
		case "EC2NodeClass":
			object = &awsv1.EC2NodeClass{}
		default:
			continue
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%v in\n%s", err, document)
		}
		if !strings.HasSuffix(meta.APIVersion, "/v1") {
			t.Errorf("%s is left over", meta.APIVersion)
		}
	}
}

func TestWhatIsNoManifest(t *testing.T) {
	for name, text := range map[string]string{
		"no YAML":         "a: [",
		"a key twice":     "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nspec: {}\nspec: {}\n",
		"a Helm template": "apiVersion: v1\n{{- if .Values.x }}\nkind: A\n{{- end }}\n",
	} {
		_, err := convert.Convert([]convert.Input{{Name: "pools.yaml", Text: []byte("kind: List\n---\n" + text)}}, convert.Options{})
		if err == nil || !strings.Contains(err.Error(), "pools.yaml: document 2") {
			t.Errorf("%s: the error does not say where: %v", name, err)
		}
	}
	if _, err := convert.Convert(nil, convert.Options{Role: "a", InstanceProfile: "b"}); err == nil {
		t.Error("role and instance profile together are accepted")
	}
}
