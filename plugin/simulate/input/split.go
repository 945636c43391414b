package input

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// part is the value of one key, as it is in the text.
type part struct {
	key  string
	text []byte
	// yaml means that text is "KEY: VALUE" in YAML. Otherwise it is the value in JSON.
	yaml bool
}

// parts are those of an object, in the order of the text.
type parts []part

func (ps parts) get(key string) (part, bool) {
	for _, p := range ps {
		if p.key == key {
			return p, true
		}
	}
	return part{}, false
}

// documents divides a file into its documents.
func documents(text []byte) [][]byte {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if bytes.IndexByte(text, '\r') >= 0 {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	var out [][]byte
	start := 0
	add := func(end int) {
		if doc := text[start:end]; !blank(doc) {
			out = append(out, doc)
		}
	}
	for at := 0; at < len(text); {
		line := lineAt(text, at)
		if marks(line) {
			add(at)
			// The text after the dashes belongs to the document that begins here.
			start = at + 3
		}
		at += len(line)
	}
	add(len(text))
	return out
}

// marks reports whether the line ends a document.
func marks(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || line[3] == ' ' || line[3] == '\n' || line[3] == '\t'
}

// lineAt returns the line that begins at a position, with its newline.
func lineAt(text []byte, at int) []byte {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return text[at : at+n+1]
	}
	return text[at:]
}

// blank reports whether the document has only spaces and comments.
func blank(doc []byte) bool {
	for at := 0; at < len(doc); {
		line := lineAt(doc, at)
		if t := bytes.TrimSpace(line); len(t) > 0 && t[0] != '#' {
			return false
		}
		at += len(line)
	}
	return true
}

// cut divides a document into the parts of its object.
func cut(doc []byte) (parts, error) {
	if t := bytes.TrimSpace(doc); len(t) > 0 && t[0] == '{' {
		if ps, rest, err := cutJSON(t); err == nil && len(bytes.TrimSpace(rest)) == 0 {
			return ps, nil
		}
	}
	if ps, ok := cutYAML(doc); ok {
		return ps, nil
	}
	// This slower way is for flow style, anchors and the rest of YAML.
	asJSON, err := yamlToJSON(doc)
	if err != nil {
		return nil, err
	}
	ps, _, err := cutJSON(asJSON)
	return ps, err
}

// cutYAML divides a mapping in block style whose keys are at the beginning of lines. ok is false for any other text.
func cutYAML(doc []byte) (parts, bool) {
	if bytes.Contains(doc, []byte(" &")) || bytes.Contains(doc, []byte(" *")) {
		return nil, false // An alias may refer to another part.
	}
	var out parts
	start := -1
	for at := 0; at < len(doc); {
		line := lineAt(doc, at)
		if !continues(line, start >= 0) {
			key := keyOf(line)
			if _, twice := out.get(key); key == "" || twice {
				return nil, false
			}
			if start >= 0 {
				out[len(out)-1].text = doc[start:at]
			}
			start = at
			out = append(out, part{key: key, yaml: true})
		}
		at += len(line)
	}
	if start < 0 {
		return nil, false
	}
	out[len(out)-1].text = doc[start:]
	return out, true
}

// continues reports whether the line belongs to the key before it, or is empty. inside means that there is a key.
func continues(line []byte, inside bool) bool {
	switch line[0] {
	case '\n', '#':
		return true
	case ' ':
		return inside || blank(line)
	case '-':
		return inside && (len(line) == 1 || line[1] == ' ' || line[1] == '\n')
	}
	return false
}

// keyOf returns the plain key with which the line begins, empty for any other line.
func keyOf(line []byte) string {
	for i, c := range line {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9':
		case c == ':' && i > 0 && (i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\n'):
			return string(line[:i])
		default:
			return ""
		}
	}
	return ""
}

// within returns the parts of a mapping that is the value of a YAML part: its lines, two columns to the left. ok is false unless
// the mapping is in block style, indented by two.
func (p part) within() (parts, bool) {
	if !p.yaml {
		ps, rest, err := cutJSON(p.text)
		return ps, err == nil && len(bytes.TrimSpace(rest)) == 0
	}
	head := lineAt(p.text, 0)
	if bytes.TrimSpace(head)[len(bytes.TrimSpace(head))-1] != ':' {
		return nil, false
	}
	body, ok := dedent(p.text[len(head):], 2)
	if !ok {
		return nil, false
	}
	return cutYAML(body)
}

// dedent removes columns from each line. ok is false if a line that is not empty has fewer.
func dedent(text []byte, columns int) ([]byte, bool) {
	out := make([]byte, 0, len(text))
	for at := 0; at < len(text); {
		line := lineAt(text, at)
		at += len(line)
		n := 0
		for n < len(line) && n < columns && line[n] == ' ' {
			n++
		}
		if n < columns && len(bytes.TrimSpace(line)) > 0 {
			return nil, false
		}
		out = append(out, line[n:]...)
	}
	return out, true
}

// elements returns the items of a list as documents.
func (p part) elements() ([][]byte, error) {
	if !p.yaml {
		return cutArray(p.text)
	}
	if out, ok := p.blockElements(); ok {
		return out, nil
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
	return cutArray(only.text)
}

// blockElements returns the items of a sequence in block style, each as a document.
func (p part) blockElements() ([][]byte, bool) {
	head := lineAt(p.text, 0)
	if strings.TrimSpace(string(head)) != p.key+":" {
		return nil, false
	}
	body := p.text[len(head):]
	indent := len(body) - len(bytes.TrimLeft(body, " "))
	if indent == len(body) || body[indent] != '-' {
		return nil, false
	}
	mark := append(bytes.Repeat([]byte(" "), indent), '-', ' ')
	var out [][]byte
	for at := 0; at < len(body); {
		line := lineAt(body, at)
		at += len(line)
		switch {
		case bytes.HasPrefix(line, mark) && len(line) > len(mark) && line[len(mark)] != ' ':
			out = append(out, append(make([]byte, 0, 1024), line[len(mark):]...))
		case len(out) == 0:
			return nil, false
		default:
			rest, ok := dedent(line, len(mark))
			if !ok {
				return nil, false
			}
			out[len(out)-1] = append(out[len(out)-1], rest...)
		}
	}
	return out, true
}

var errNotAnObject = errors.New("neither an object nor a list of objects")

// cutJSON divides the object with which the text begins, and returns the rest of the text.
func cutJSON(text []byte) (parts, []byte, error) {
	at := space(text, 0)
	if at == len(text) || text[at] != '{' {
		return nil, nil, errNotAnObject
	}
	var out parts
	for at = space(text, at+1); at < len(text) && text[at] != '}'; at = space(text, at) {
		end, err := skip(text, at)
		if err != nil || text[at] != '"' || end-at < 2 || text[end-1] != '"' {
			return nil, nil, fmt.Errorf("JSON, byte %d: a key was expected", at)
		}
		key := string(text[at+1 : end-1])
		if at = space(text, end); at == len(text) || text[at] != ':' {
			return nil, nil, fmt.Errorf("JSON, byte %d: a colon was expected", at)
		}
		at = space(text, at+1)
		if end, err = skip(text, at); err != nil {
			return nil, nil, err
		}
		out = append(out, part{key: key, text: text[at:end]})
		if at = space(text, end); at < len(text) && text[at] == ',' {
			at++
		}
	}
	if at == len(text) {
		return nil, nil, errors.New("JSON ends within an object")
	}
	return out, text[at+1:], nil
}

// cutArray divides an array into its elements.
func cutArray(text []byte) ([][]byte, error) {
	at := space(text, 0)
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return nil, nil
	}
	if at == len(text) || text[at] != '[' {
		return nil, errors.New("a list was expected")
	}
	var out [][]byte
	for at = space(text, at+1); at < len(text) && text[at] != ']'; at = space(text, at) {
		end, err := skip(text, at)
		if err != nil {
			return nil, err
		}
		if end == at {
			return nil, fmt.Errorf("JSON, byte %d: a value was expected", at)
		}
		out = append(out, text[at:end])
		if at = space(text, end); at < len(text) && text[at] == ',' {
			at++
		}
	}
	if at == len(text) {
		return nil, errors.New("JSON ends within a list")
	}
	return out, nil
}

func space(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// skip returns the end of the value that begins at a position. It looks at brackets and strings only: the parser of the value
// finds its other faults.
func skip(text []byte, at int) (int, error) {
	depth := 0
	for i := at; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(text)), nil
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i, nil
			}
			if depth--; depth == 0 {
				return i + 1, nil
			}
		case ',', ' ', '\n', '\t', '\r', ':':
			if depth == 0 && i > at {
				return i, nil
			}
		}
	}
	if depth > 0 {
		return 0, errors.New("JSON ends within a value")
	}
	return len(text), nil
}
