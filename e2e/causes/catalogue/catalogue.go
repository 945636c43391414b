package catalogue

import (
	"fmt"
	"io/fs"
	"iter"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Group is causes of one kind.
type Group struct {
	// Title of the group.
	Title string `json:"title"`
	// Causes in the order of the page.
	Causes []Cause `json:"causes"`
}

// Cause is one cause. $NAME in its texts stands for its name, which the NodePool, the namespace and the EC2NodeClass of its own have.
type Cause struct {
	// Name is one word in lower case, with hyphens.
	Name string `json:"name"`
	// Means is what is wrong and what to do, for users.
	Means string `json:"means"`
	// Says is the sentence. {word} stands for a text that differs from one cluster to another.
	Says string `json:"says"`
	// At is the object whose condition has the sentence: Pod, the default, or NodeClaim; Nothing where no component writes one.
	At string `json:"at,omitempty"`
	// Edit is the first of the edits that `slipway explain` proposes; empty where it has none.
	Edit string `json:"edit,omitempty"`

	// Namespace is merged into the namespace of the cause, by the rules of a JSON merge patch.
	Namespace map[string]any `json:"namespace,omitempty"`
	// NodePool is merged into the NodePool of the cause.
	NodePool map[string]any `json:"nodePool,omitempty"`
	// NodeClass is merged into an EC2NodeClass; without it the NodePool has one that is as it should be.
	NodeClass map[string]any `json:"nodeClass,omitempty"`
	// Pod is merged into the template of the Deployment web.
	Pod map[string]any `json:"pod,omitempty"`
	// Replicas of the Deployment web. The default is 1.
	Replicas *int32 `json:"replicas,omitempty"`
	// Before are objects that are created before it, in YAML; those with a namespace are in that of the cause.
	Before string `json:"before,omitempty"`
	// Fault is what happens to AWS or to the cause's machines, in words that package causes knows; empty for nothing.
	Fault string `json:"fault,omitempty"`
	// Alone means that the fault concerns launches of others too.
	Alone bool `json:"alone,omitempty"`
	// Apply does what Edit says.
	Apply *Apply `json:"apply,omitempty"`
}

// Apply is an edit as a JSON merge patch, of the NodePool or of the pods.
type Apply struct {
	// NodePool is merged into the NodePool.
	NodePool map[string]any `json:"nodePool,omitempty"`
	// Pod is merged into the template of the Deployment web.
	Pod map[string]any `json:"pod,omitempty"`
	// After are objects, in YAML, that others make then, such as the provisioner of a volume.
	After string `json:"after,omitempty"`
}

// Read returns all causes, by group: one group a file of the folder causes.
func Read(files fs.FS) ([]Group, error) {
	entries, err := fs.ReadDir(files, "causes")
	if err != nil {
		return nil, err
	}
	var out []Group
	for _, e := range entries {
		text, err := fs.ReadFile(files, path.Join("causes", e.Name()))
		if err != nil {
			return nil, err
		}
		var g Group
		if err := yaml.UnmarshalStrict(text, &g); err != nil {
			return nil, fmt.Errorf("reading %s: %w", e.Name(), err)
		}
		// Its name stands in for $NAME in whatever the cause has.
		for i := range g.Causes {
			if err := g.Causes[i].expand(); err != nil {
				return nil, fmt.Errorf("reading %s: %w", e.Name(), err)
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// expand puts the cause's name in place of $NAME.
func (c *Cause) expand() error {
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), "$NAME", c.Name)), c)
}

// Pods returns how many pods of the Deployment web there are.
func (c *Cause) Pods() int32 {
	if c.Replicas == nil {
		return 1
	}
	return *c.Replicas
}

var placeholder = regexp.MustCompile(`\\\{[a-z -]+\\\}`)

// Pattern returns what finds a sentence in a text: {word} matches whatever stands there.
func Pattern(sentence string) (*regexp.Regexp, error) {
	return regexp.Compile(placeholder.ReplaceAllString(regexp.QuoteMeta(sentence), `[^;\n]{1,160}?`))
}

// MostBeforeStop bounds the characters of a message before its first full stop.
const MostBeforeStop = 200

// All yields the causes of all groups.
func All(groups []Group) iter.Seq[*Cause] {
	return func(yield func(*Cause) bool) {
		for _, g := range groups {
			for i := range g.Causes {
				if !yield(&g.Causes[i]) {
					return
				}
			}
		}
	}
}
