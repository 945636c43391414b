package userdata

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
)

// scriptType is what cloud-init runs.
const scriptType = "text/x-shellscript"

// Scripts are the shell scripts of the user data that have a file name, by that name: cloud-init would run them, and those
// without a name too.
func Scripts(data string) (map[string]string, error) {
	message, err := mail.ReadMessage(strings.NewReader(strings.TrimLeft(data, "\r\n\t ")))
	if err != nil {
		return nil, nil // No archive has no parts; what it is, Parse says.
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return nil, nil
	}
	out := map[string]string{}
	for r := multipart.NewReader(message.Body, params["boundary"]); ; {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("user data: scripts: %w", err)
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil || kind != scriptType || part.FileName() == "" {
			continue
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return nil, fmt.Errorf("user data: script %s: %w", part.FileName(), err)
		}
		out[part.FileName()] = string(body)
	}
}
