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
	out := map[string]string{}
	archive, kind, params := &mail.Message{}, "", map[string]string{}
	if message, err := mail.ReadMessage(strings.NewReader(strings.TrimLeft(data, "\r\n\t "))); err == nil {
		archive = message
		kind, params, _ = mime.ParseMediaType(message.Header.Get("Content-Type"))
	}
	if !strings.HasPrefix(kind, "multipart/") {
		return out, nil // What is no archive has no parts; what else it is, Parse says.
	}
	for r := multipart.NewReader(archive.Body, params["boundary"]); ; {
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
