package convert

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// DefaultAMIAlias is the alias of an EC2NodeClass whose old form selects no images for current versions of Kubernetes.
const DefaultAMIAlias = "al2023@latest"

// Options are values that v1 requires and an old manifest may lack.
type Options struct {
	// Role is the nodes' role if the manifest has neither a role nor an instance profile.
	Role string
	// InstanceProfile is used in the same case, instead of Role.
	InstanceProfile string
	// AMIAlias is the alias of an EC2NodeClass whose images no longer exist or are not named; default DefaultAMIAlias.
	AMIAlias string
}

// Level is the severity of a finding.
type Level string

// The levels of findings.
const (
	// Lost means that v1 has no counterpart for a field.
	Lost Level = "lost"
	// Assumed means that a value was not in the old form, or was different.
	Assumed Level = "assumed"
	// Missing means that v1 requires a value that is not given: the API server will reject the object.
	Missing Level = "missing"
)

// Finding is a remark about one field.
type Finding struct {
	// Level is its severity.
	Level Level
	// Object is the old object, as kind and name.
	Object string
	// Field is the path of the field in the old object, or in the new one if it is Missing or Assumed.
	Field string
	// Why is the reason, and what to do.
	Why string
}

// String returns the line that is printed.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", f.Level, f.Object, f.Field, f.Why)
}

// Result is the output of a conversion.
type Result struct {
	// Text holds all documents, in the order of the input.
	Text []byte
	// Findings in the order of the documents.
	Findings []Finding
	// Converted is the number of converted objects.
	Converted int
}

// Incomplete reports whether a value is missing that only the user can provide.
func (r Result) Incomplete() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Missing })
}

// Input is one file, or standard input.
type Input struct {
	// Name is the input's name in errors.
	Name string
	// Text is YAML or JSON, in one or more documents.
	Text []byte
}

// Convert converts the documents of all inputs together: a NodePool's kubelet settings move to the EC2NodeClass that it names, in whichever
// input that is.
func Convert(inputs []Input, o Options) (Result, error) {
	if o.Role != "" && o.InstanceProfile != "" {
		return Result{}, errors.New("role and instance profile are given: v1 takes one of them")
	}
	c := &conversion{options: o}
	for _, input := range inputs {
		if err := c.read(input); err != nil {
			return Result{}, err
		}
	}
	for i := range c.outputs {
		c.outputs[i].convert(c)
	}
	c.settleKubelets()
	return c.write()
}

// conversion is the state of one call of Convert.
type conversion struct {
	options  Options
	outputs  []output
	findings []Finding
	// kubelets are kubelet settings that v1 has in the EC2NodeClass.
	kubelets []kubelet
	count    int
}

// output is one document: text that is copied unchanged, or an object.
type output struct {
	text     []byte
	old      map[string]any
	comments comments
	// objects are the converted ones: one or two, or none.
	objects []map[string]any
}

func (c *conversion) read(input Input) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(input.Text)))
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.readDocument(text)
		}
		if err != nil {
			return fmt.Errorf("%s: document %d: %w", input.Name, n, err)
		}
	}
}

func (c *conversion) readDocument(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	value, err := decode(text)
	if err != nil {
		return err
	}
	object, ok := value.(map[string]any)
	if !ok {
		c.outputs = append(c.outputs, output{text: text})
		return nil
	}
	items, isList := object["items"].([]any)
	if isList && slices.ContainsFunc(items, isOld) {
		for _, item := range items {
			c.outputs = append(c.outputs, listItem(item))
		}
		return nil
	}
	if !isOld(object) {
		c.outputs = append(c.outputs, output{text: text})
		return nil
	}
	c.outputs = append(c.outputs, output{old: object, comments: readComments(text)})
	return nil
}

// listItem returns the item of a list as a document of its own: a converted item does not belong in a list of the old kind.
func listItem(item any) output {
	object, ok := item.(map[string]any)
	switch {
	case ok && isOld(object):
		return output{old: object}
	case ok:
		return output{objects: []map[string]any{object}}
	}
	return output{}
}

// convertible returns the function that converts an old kind, including kinds that Karpenter itself creates.
func convertible(apiVersion, kind string) func(*conversion, *fields) []map[string]any {
	switch apiVersion + " " + kind {
	case "karpenter.sh/v1alpha5 Provisioner":
		return (*conversion).provisioner
	case "karpenter.k8s.aws/v1alpha1 AWSNodeTemplate", "karpenter.k8s.aws/v1alpha5 AWSNodeTemplate":
		return (*conversion).nodeTemplate
	case "karpenter.sh/v1beta1 NodePool":
		return (*conversion).nodePool
	case "karpenter.k8s.aws/v1beta1 EC2NodeClass":
		return (*conversion).nodeClass
	case "karpenter.sh/v1alpha5 Machine", "karpenter.sh/v1beta1 NodeClaim":
		return (*conversion).created
	}
	return nil
}

func isOld(object any) bool {
	m, ok := object.(map[string]any)
	return ok && convertible(text(m["apiVersion"]), text(m["kind"])) != nil
}

func (o *output) convert(c *conversion) {
	if o.old == nil {
		return
	}
	kind := text(o.old["kind"])
	metadata, _ := o.old["metadata"].(map[string]any)
	name := text(metadata["name"])
	if name == "" {
		name = text(metadata["generateName"])
	}
	f := &fields{values: o.old, object: strings.TrimSpace(kind + " " + name), name: name, conversion: c}
	convert := convertible(text(o.old["apiVersion"]), kind)
	// Fields that the server writes do not belong in a manifest.
	f.drop("apiVersion", "kind", "status")
	o.objects = convert(c, f)
	f.reportRest()
	c.count++
}

// created handles an object that Karpenter creates, not its user.
func (c *conversion) created(f *fields) []map[string]any {
	f.drop("metadata", "spec")
	c.report(Lost, f.object, "kind", "Karpenter creates these objects, no manifest does: it is left out")
	return nil
}

func (c *conversion) report(level Level, object, field, why string) {
	c.findings = append(c.findings, Finding{Level: level, Object: object, Field: field, Why: why})
}

func (c *conversion) write() (Result, error) {
	var documents [][]byte
	for _, o := range c.outputs {
		if o.text != nil {
			documents = append(documents, o.text)
		}
		for i, object := range o.objects {
			carried := o.comments
			if i > 0 {
				carried.head = ""
			}
			text, err := encode(object, carried)
			if err != nil {
				return Result{}, err
			}
			documents = append(documents, text)
		}
	}
	var out bytes.Buffer
	for i, text := range documents {
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(bytes.TrimRight(text, "\n"))
		out.WriteString("\n")
	}
	return Result{Text: out.Bytes(), Findings: c.findings, Converted: c.count}, nil
}
