package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"
)

// ReadFiles reads files, directories with all *.yaml, *.yml and *.json below them, and for "-" the given reader.
func (r *Reader) ReadFiles(paths []string, stdin io.Reader) error {
	for _, path := range paths {
		if path == "-" {
			text, err := io.ReadAll(stdin)
			if err != nil {
				return fmt.Errorf("standard input: %w", err)
			}
			if err := r.Read("standard input", text); err != nil {
				return err
			}
			continue
		}
		files, err := filesBelow(path)
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := r.Read(file, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// filesBelow returns the file itself, or the YAML and JSON files of a directory, sorted by name.
func filesBelow(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
			out = append(out, file)
		}
		return nil
	})
	return out, err
}

// Read adds the objects of a text: YAML documents, or JSON. Errors name the source. It returns an error if the text is neither;
// an object that cannot be read is a problem, not an error.
func (r *Reader) Read(source string, text []byte) error {
	rest := bytes.TrimSpace(text)
	for n := 1; len(rest) > 0 && rest[0] == '{'; n++ {
		// JSON, perhaps several objects one after the other.
		end, err := skip(rest, 0)
		if err != nil || !json1(rest, end) {
			break
		}
		if err := r.document(fmt.Sprintf("%s, object %d", source, n), rest[:end]); err != nil {
			return err
		}
		if rest = bytes.TrimSpace(rest[end:]); len(rest) == 0 {
			return nil
		}
		text = rest
	}
	for n, doc := range documents(text) {
		if err := r.document(fmt.Sprintf("%s, document %d", source, n+1), doc); err != nil {
			return err
		}
	}
	return nil
}

// Edit has a Reader read a text as Read does. An object in it takes the place of the one of its kind and name.
func Edit(r *Reader, source string, text []byte) error {
	r.edits = map[string]bool{}
	defer func() { r.edits = nil }()
	return r.Read(source, text)
}

// EditFiles has a Reader read files as ReadFiles does. An object in them takes the place of the one of its kind and name.
func EditFiles(r *Reader, paths []string, stdin io.Reader) error {
	r.edits = map[string]bool{}
	defer func() { r.edits = nil }()
	return r.ReadFiles(paths, stdin)
}

// json1 reports whether the text up to end is JSON and not YAML in flow style: its first key has quotes.
func json1(text []byte, end int) bool {
	at := space(text, 1)
	return at < end && (text[at] == '"' || text[at] == '}')
}

func (r *Reader) document(place string, doc []byte) error {
	ps, err := cut(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return r.object(place, doc, ps, typeMeta{})
}

// typeMeta is the type of an object.
type typeMeta struct{ apiVersion, kind string }

func (t typeMeta) group() string {
	group, _, ok := strings.Cut(t.apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

func (r *Reader) object(place string, doc []byte, ps parts, of typeMeta) error {
	for _, p := range ps {
		switch p.key {
		case "apiVersion":
			of.apiVersion = p.scalar()
		case "kind":
			of.kind = p.scalar()
		}
	}
	items, isList := ps.get("items")
	switch {
	case of.kind == "":
		if _, err := toJSON(doc, ps); err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		r.refuse(place, "kind", "is no Kubernetes object: it has no kind")
		return nil
	case isList && strings.HasSuffix(of.kind, "List"):
		return r.list(place, items, of)
	case of.group() == "" && of.kind == "Pod":
		return r.pod(place, doc, ps)
	}
	alpha := of.kind == "NodeOverlay" && of.apiVersion == "karpenter.sh/v1alpha1" // It has no other version.
	if old := strings.HasPrefix(of.group(), "karpenter.") && !strings.HasSuffix(of.apiVersion, "/v1") && !alpha; old {
		r.refuse(place, "apiVersion", "%s of %s: only v1 is read; `slipway convert -f FILE` writes it as v1", of.kind, of.apiVersion)
		return nil
	}
	if newObject(of.group(), of.kind) == nil {
		r.ignored[of.kind]++
		return nil
	}
	return r.decode(place, doc, ps, of)
}

// decode reads an object of a kind that newObject has.
func (r *Reader) decode(place string, doc []byte, ps parts, of typeMeta) error {
	asJSON, err := toJSON(doc, ps)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	object := newObject(of.group(), of.kind)
	unknown, mistake := strictly(asJSON, object)
	if readable := mistake == nil; !readable {
		r.unreadable(place, asJSON, func() runtime.Object { return newObject(of.group(), of.kind) }, of.kind)
		return nil
	}
	if named, ok := object.(metav1.Object); ok {
		if isNamespaced(of.kind) {
			namespaced(named)
		}
		r.unknownFields(nameOf(of.kind, named), unknown)
	}
	r.Add(object)
	return nil
}

// strictly reads JSON as the API server does: keys differ by case, and fields that the value does not have are returned. Fields of status are
// not among them: only controllers write them, those of a newer cluster as well.
func strictly(text []byte, value any) (unknown []string, err error) {
	mistakes, err := kjson.UnmarshalStrict(text, value, kjson.DisallowUnknownFields)
	for _, m := range mistakes {
		if f := kjson.FieldError(nil); errors.As(m, &f) && !strings.HasPrefix(f.FieldPath(), "status.") {
			unknown = append(unknown, f.FieldPath())
		}
	}
	return unknown, err
}

func (r *Reader) list(place string, items part, of typeMeta) error {
	elements, err := items.elements()
	if err != nil {
		return fmt.Errorf("%s: items: %w", place, err)
	}
	inner := typeMeta{of.apiVersion, strings.TrimSuffix(of.kind, "List")}
	if of.kind == "List" {
		inner = typeMeta{}
	}
	for i, e := range elements {
		where := fmt.Sprintf("%s, items[%d]", place, i)
		ps, err := cut(e)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if err := r.object(where, e, ps, inner); err != nil {
			return err
		}
	}
	return nil
}

func toJSON(doc []byte, ps parts) ([]byte, error) {
	if len(ps) > 0 && !ps[0].yaml && bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{")) && json1(bytes.TrimSpace(doc), len(doc)) {
		return doc, nil
	}
	return yamlToJSON(doc)
}

// scalar returns the text of a part that is a name.
func (p part) scalar() string {
	text := string(p.text)
	if p.yaml {
		text = text[len(p.key)+1:]
		if i := strings.Index(text, " #"); i >= 0 {
			text = text[:i]
		}
		text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	}
	text = strings.TrimSpace(text)
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		text = text[1 : len(text)-1]
	}
	return strings.Clone(text)
}

// into reads the value of a part.
func (p part) into(value any) error {
	text, err := p.json()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}

// strictly reads the value of a part, and returns the fields that the value does not have.
func (p part) strictly(value any) (unknown []string, err error) {
	text, err := p.json()
	if err != nil {
		return nil, err
	}
	return strictly(text, value)
}

// json returns the value of a part as JSON.
func (p part) json() ([]byte, error) {
	if !p.yaml {
		return p.text, nil
	}
	asJSON, err := yamlToJSON(p.text)
	if err != nil {
		return nil, err
	}
	ps, _, err := cutJSON(asJSON)
	if err != nil {
		return nil, err
	}
	only, _ := ps.get(p.key)
	return only.text, nil
}
