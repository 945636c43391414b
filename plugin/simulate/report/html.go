package report

import (
	"crypto/sha256"
	_ "embed" // The template and the style sheet.
	"encoding/base64"
	"html/template"
	"io"

	"github.com/slipway-k8s/slipway/internal/terminal"
)

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

// write renders the page. What others wrote is escaped by the template, and what a reader would not see is quoted as on a terminal: text
// that turns the direction of reading could hide a name.
func write(w io.Writer, p page) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	p.Style = template.CSS(styleText)
	sum := sha256.Sum256([]byte(styleText))
	p.StyleHash = "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	return t.Execute(terminal.Text(w), p)
}
