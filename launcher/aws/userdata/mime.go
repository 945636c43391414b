package userdata

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

const (
	nodeConfigType  = "application/node.eks.aws"
	shellScriptKind = "text/x-shellscript"
	shellScriptType = shellScriptKind + `; charset="us-ascii"`
)

// part is one part of a MIME archive.
type part struct {
	header map[string][]string
	body   string
}

func newPart(contentType, body string) part {
	return part{header: map[string][]string{"Content-Type": {contentType}}, body: body}
}

// customParts parses spec.userData. A MIME archive gives its parts. Anything else is one part: of type NodeConfig if yamlToo is set and it
// is a YAML mapping, else a shell script.
func customParts(custom string, yamlToo bool) ([]part, error) {
	trimmed := strings.TrimSpace(custom)
	if trimmed == "" {
		return nil, nil
	}
	if strings.HasPrefix(trimmed, "MIME-Version:") || strings.HasPrefix(trimmed, "Content-Type:") {
		parts, err := readArchive(strings.ReplaceAll(trimmed, "\r\n", "\n") + "\n")
		if err != nil {
			return nil, fmt.Errorf("spec.userData: %w", err)
		}
		return parts, nil
	}
	if yamlToo && yaml.Unmarshal([]byte(custom), &map[string]any{}) == nil {
		return []part{newPart(nodeConfigType, custom)}, nil
	}
	return []part{newPart(shellScriptType, custom)}, nil
}

func readArchive(text string) ([]part, error) {
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the MIME header cannot be read: %w", err)
	}
	mediaType, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("the MIME content type cannot be read: %w", err)
	}
	if !strings.HasPrefix(mediaType, "multipart/") {
		body, err := io.ReadAll(message.Body)
		if err != nil {
			return nil, fmt.Errorf("the MIME body cannot be read: %w", err)
		}
		only := newPart(message.Header.Get("Content-Type"), string(body))
		return []part{only}, only.check()
	}
	var out []part
	for reader := multipart.NewReader(message.Body, params["boundary"]); ; {
		p, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("part %d of the MIME archive cannot be read: %w", len(out)+1, err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return nil, fmt.Errorf("part %d of the MIME archive cannot be read: %w", len(out)+1, err)
		}
		next := part{header: p.Header, body: string(body)}
		if err := next.check(); err != nil {
			return nil, fmt.Errorf("part %d of the MIME archive: %w", len(out)+1, err)
		}
		out = append(out, next)
	}
}

// check returns an error if the part's header cannot be written again unchanged.
func (p part) check() error {
	for key, values := range p.header {
		for _, value := range values {
			if strings.ContainsFunc(key+value, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
				return fmt.Errorf("header %q has a control character", key)
			}
		}
	}
	return nil
}

// archive writes the parts with a boundary that does not occur in them, and without carriage returns, as Karpenter does: the kernel looks for the interpreter
// of a script with CRLF under a name that ends in one.
func archive(parts []part) string {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].body = strings.ReplaceAll(parts[i].body, "\r", "")
	}
	boundary := "//"
	for n := 0; slices.ContainsFunc(parts, func(p part) bool { return strings.Contains(p.body, "--"+boundary) }); n++ {
		boundary = fmt.Sprintf("//%d//", n)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range parts {
		fmt.Fprintf(&out, "--%s\n", boundary)
		for _, key := range slices.Sorted(maps.Keys(p.header)) {
			for _, value := range p.header[key] {
				fmt.Fprintf(&out, "%s: %s\n", key, value)
			}
		}
		fmt.Fprintf(&out, "\n%s\n", p.body)
	}
	fmt.Fprintf(&out, "--%s--\n", boundary)
	return out.String()
}
