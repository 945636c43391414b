package userdata

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// lastPart is the body of the last part of an archive, with the number of parts.
func lastPart(text string) (last string, n int, err error) {
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return "", 0, err
	}
	_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return "", 0, err
	}
	for reader := multipart.NewReader(message.Body, params["boundary"]); ; n++ {
		p, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return last, n, nil
		}
		if err != nil {
			return "", n, err
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(p); err != nil {
			return "", n, err
		}
		last = body.String()
	}
}

// FuzzRender checks Render with any user data: it does not panic, an error comes without output, and an output contains all that the node
// needs to join, as without the user's part.
func FuzzRender(f *testing.F) {
	for _, text := range []string{
		"", "#!/bin/bash\necho\n", multi, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", "a: &a [*a]", "[settings.kubernetes]\nmax-pods = 3\n",
		"[settings]\nkubernetes = 1\n", "MIME-Version: 1.0\n\n", "Content-Type: text/x-shellscript\n\necho\n", "--//\n--//--\n", "#cloud-config\na: b\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\n\n--//--\n", "\x00", "settings.kubernetes.node-labels = 1", "Content-Type:\rtext/x-shellscript\n\necho\n",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, raid bool) {
		for _, family := range []string{catalog.FamilyAL2023, catalog.FamilyAL2, catalog.FamilyBottlerocket} {
			in := input(family, custom(text), func(in *Input) { in.RAID0 = raid })
			got, err := Render(in)
			if err != nil {
				if got != "" {
					t.Errorf("%s: an error with output: %v, %q", family, err, got)
				}
				continue
			}
			if family == catalog.FamilyBottlerocket {
				checkSettings(t, got)
				continue
			}
			in.Custom = ""
			alone, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			want, _, err := lastPart(alone)
			if err != nil {
				t.Fatal(err)
			}
			last, n, err := lastPart(got)
			if err != nil || last != want {
				t.Errorf("%s: %d parts, the last is\n%q\nwant\n%q\n%v\n%q", family, n, last, want, err, got)
			}
		}
	})
}

func checkSettings(t *testing.T, text string) {
	t.Helper()
	var out struct {
		Settings struct {
			Kubernetes map[string]any
		}
	}
	if err := toml.Unmarshal([]byte(text), &out); err != nil {
		t.Errorf("not TOML: %v\n%s", err, text)
	}
	k := out.Settings.Kubernetes
	if k["cluster-name"] != "prod" || k["api-server"] == nil || k["cluster-certificate"] == nil || k["node-taints"] == nil {
		t.Errorf("what the node needs to join is not whole: %v", k)
	}
}
