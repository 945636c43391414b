package report_test

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"
)

// elements are all that pages have: none of them runs anything or fetches anything.
func elements() []string {
	return strings.Fields("html head meta title style body a header main footer section h1 h2 p b small code span ul li dl div dt dd " +
		"table caption thead tbody tr th td svg g rect figure figcaption")
}

// attributes are all that elements have.
func attributes() []string {
	return strings.Fields("lang charset http-equiv content name class id href role scope aria-label aria-labelledby aria-hidden focusable " +
		"data-label tabindex viewbox preserveaspectratio x y width height")
}

// wellFormed holds that a page runs and fetches nothing, and that readers of screens can find their way.
func wellFormed(t *testing.T, name, page string) {
	t.Helper()
	doc := parse(t, page)
	ids, headings := map[string]bool{}, 0
	for n := range doc.Descendants() {
		switch {
		case n.Type == html.TextNode:
			if at := strings.IndexFunc(n.Data, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); at >= 0 {
				t.Errorf("%s has a character that is not shown: %q", name, n.Data)
			}
		case n.Type != html.ElementNode:
		case !slices.Contains(elements(), n.Data):
			t.Errorf("%s has an element %s", name, n.Data)
		default:
			attributesOf(t, name, n, ids)
			accessible(t, name, n)
			if n.Data == "h1" {
				headings++
			}
		}
	}
	if headings != 1 {
		t.Errorf("%s has %d first headings", name, headings)
	}
	for n := range doc.Descendants() {
		for _, ref := range []string{attr(n, "aria-labelledby"), strings.TrimPrefix(attr(n, "href"), "#")} {
			if ref != "" && !ids[ref] {
				t.Errorf("%s refers to the id %s, which is none", name, ref)
			}
		}
	}
	policy(t, name, doc)
	rowsFit(t, name, doc)
}

// attributesOf holds that an element has known attributes alone, refers to its own page, and has an id that no other has.
func attributesOf(t *testing.T, name string, n *html.Node, ids map[string]bool) {
	t.Helper()
	for _, a := range n.Attr {
		switch key := strings.ToLower(a.Key); {
		case !slices.Contains(attributes(), key):
			t.Errorf("%s: %s has an attribute %s=%q", name, n.Data, a.Key, a.Val)
		case key == "href" && !strings.HasPrefix(a.Val, "#"):
			t.Errorf("%s refers to %s", name, a.Val)
		case key == "id":
			if ids[a.Val] {
				t.Errorf("%s has the id %s twice", name, a.Val)
			}
			ids[a.Val] = true
		}
	}
}

// accessible holds that an element has the words that readers of screens need.
func accessible(t *testing.T, name string, n *html.Node) {
	t.Helper()
	switch n.Data {
	case "table":
		if first := child(n, 0); first == nil || first.Data != "caption" || text(first) == "" {
			t.Errorf("%s has a table without a caption", name)
		}
	case "th":
		if scope := attr(n, "scope"); scope != "row" && scope != "col" {
			t.Errorf("%s has a header cell without a scope: %s", name, text(n))
		}
	case "svg":
		if attr(n, "aria-hidden") != "true" && (attr(n, "role") != "img" || attr(n, "aria-label") == "") {
			t.Errorf("%s has a picture without words", name)
		}
	}
}

// policy holds that the page forbids all but its own style sheet, and that this is the one that it allows.
func policy(t *testing.T, name string, doc *html.Node) {
	t.Helper()
	allowed, style := "", ""
	for n := range doc.Descendants() {
		switch {
		case attr(n, "http-equiv") == "Content-Security-Policy":
			allowed = attr(n, "content")
		case n.Type == html.ElementNode && n.Data == "style":
			style += text(n)
		}
	}
	sum := sha256.Sum256([]byte(style))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	if allowed != want {
		t.Errorf("%s: Content-Security-Policy %s, want %s", name, allowed, want)
	}
	for _, outside := range []string{"url(", "@import", "http", "//"} {
		if strings.Contains(style, outside) {
			t.Errorf("%s: the style sheet has %s", name, outside)
		}
	}
	for _, wanted := range []string{"prefers-color-scheme: dark", "max-width:"} {
		if !strings.Contains(style, wanted) {
			t.Errorf("%s: the style sheet has no %s", name, wanted)
		}
	}
}

// rowsFit holds that each row of a table has a cell for each of its columns.
func rowsFit(t *testing.T, name string, doc *html.Node) {
	t.Helper()
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "table" {
			continue
		}
		columns := 0
		for r := range n.Descendants() {
			if r.Type != html.ElementNode || r.Data != "tr" {
				continue
			}
			cells := 0
			for c := range r.ChildNodes() {
				if c.Type == html.ElementNode {
					cells++
				}
			}
			if columns == 0 {
				columns = cells
			}
			if cells != columns || cells == 0 {
				t.Errorf("%s: a row of %q has %d cells, want %d", name, text(child(n, 0)), cells, columns)
			}
		}
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if strings.EqualFold(a.Key, key) {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var out strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			out.WriteString(d.Data)
		}
	}
	return out.String()
}

// child returns an element below another one.
func child(n *html.Node, at int) *html.Node {
	for c := range n.ChildNodes() {
		if c.Type == html.ElementNode {
			if at == 0 {
				return c
			}
			at--
		}
	}
	return nil
}
