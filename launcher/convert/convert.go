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

// DefaultAMIAlias is what an EC2NodeClass gets whose old form has no images that exist for current versions of Kubernetes.
const DefaultAMIAlias = "al2023@latest"

// Options are what v1 requires and an old manifest may lack.
type Options struct {
	// Role of the nodes, where neither a role nor an instance profile is given.
	Role string
	// InstanceProfile of the nodes, in the same case, instead of Role.
	InstanceProfile string
	// AMIAlias of an EC2NodeClass whose images no longer exist or are not named; default DefaultAMIAlias.
	AMIAlias string
}

// Level is how much a finding matters.
type Level string

// The levels of findings.
const (
	// Lost is a field that v1 has no counterpart for.
	Lost Level = "lost"
	// Assumed is a value that the old form did not have, or had otherwise.
	Assumed Level = "assumed"
	// Missing is what v1 requires and nobody has given: the API server will refuse the object.
	Missing Level = "missing"
)

// Finding is something a user has to know about one field.
type Finding struct {
	// Level says what became of the field.
	Level Level
	// Object is the old object, as kind and name.
	Object string
	// Field is the path of the field in the old object, or in the new one if it is Missing or Assumed.
	Field string
	// Why is the reason, and what to do.
	Why string
}

// String is the line that is printed.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", f.Level, f.Object, f.Field, f.Why)
}

// Result is what became of the input.
type Result struct {
	// Text is all documents, in the order of the input.
	Text []byte
	// Findings in the order of the documents.
	Findings []Finding
	// Converted is how many objects were converted.
	Converted int
}

// Incomplete says that something is missing that only the user knows.
func (r Result) Incomplete() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Missing })
}

// Input is one file, or standard input.
type Input struct {
	// Name is named in errors.
	Name string
	// Text is YAML or JSON, in one or more documents.
	Text []byte
}

// Convert converts the documents of all inputs together: a NodePool's kubelet settings move to the EC2NodeClass that it
// names, wherever that stands.
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
	// kubelets are settings of kubelets, which v1 has in the EC2NodeClass.
	kubelets []kubelet
	count    int
}

// output is one document: text that passes untouched, or an object.
type output struct {
	text     []byte
	old      map[string]any
	comments comments
	// objects are what the old one became: one or two, or none.
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

// listItem is a document of its own: an item that is converted has no place in a list of the old kind.
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

// convertible are the old kinds, and those that Karpenter itself creates.
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
	// The server's own words are no manifest's.
	f.drop("apiVersion", "kind", "status")
	o.objects = convert(c, f)
	f.reportRest()
	c.count++
}

// created is an object that Karpenter makes, not its user.
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
