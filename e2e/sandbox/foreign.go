package sandbox

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/e2e/foreign"
	"github.com/slipway-k8s/slipway/e2e/machines"
)

// nodeRole is the IAM role of the sandbox's nodes.
const nodeRole = "KarpenterNodeRole-" + ClusterName

// detailColumn is the column of details in Progress.
const detailColumn = 24

// startForeign checks that the other AWS responds.
func (s *Sandbox) startForeign(ctx context.Context) (string, error) {
	other, err := foreign.New(foreign.Config{
		Endpoint: s.cfg.AWSEndpoint, ClusterName: ClusterName, Role: nodeRole,
		Poll: max(time.Duration(float64(time.Second)/s.cfg.Speed), 100*time.Millisecond), Logger: klog.FromContext(ctx),
	})
	if err != nil {
		return "", err
	}
	if err := other.Check(ctx); err != nil {
		return "", err
	}
	s.foreign = other
	return fmt.Sprintf("the one at %s, region %s", other.URL(), other.Region()), nil
}

// prepareForeign creates in the other AWS what a cluster needs.
func (s *Sandbox) prepareForeign(ctx context.Context) (string, error) {
	if s.foreign == nil {
		return "", nil
	}
	version, err := s.client.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	if s.prepared, err = s.foreign.Prepare(ctx, version.Major+"."+version.Minor); err != nil {
		return "", err
	}
	if len(s.prepared.Notes) == 0 {
		return "all that the cluster needs exists", nil
	}
	return strings.Join(s.prepared.Notes, "\n"+strings.Repeat(" ", detailColumn)), nil
}

// instances returns the source of the instances for which machines run.
func (s *Sandbox) instances() machines.Instances {
	if s.foreign != nil {
		return s.foreign
	}
	return machines.FromAWS(s.aws)
}

// foreignFlags returns launcher flags for what an AWS without this EKS cluster cannot describe.
func (s *Sandbox) foreignFlags() []string {
	out := []string{
		"--cluster-endpoint=" + s.cp.Endpoint(),
		"--cluster-ca-bundle=" + base64.StdEncoding.EncodeToString(s.cp.CertificateAuthority()),
	}
	if s.prepared.Queue {
		out = append(out, "--interruption-queue="+ClusterName)
	}
	return out
}

// adaptSamples changes the sample class to an AMI id where aliases select nothing.
func (s *Sandbox) adaptSamples() error {
	if s.prepared.ImageID == "" {
		return nil
	}
	return filepath.WalkDir(s.SamplesPath(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(data), "- alias: al2023@latest", "- id: "+s.prepared.ImageID)
		text = strings.ReplaceAll(text, "  amiSelectorTerms:", "  amiFamily: AL2023\n  amiSelectorTerms:")
		return os.WriteFile(path, []byte(text), 0o600)
	})
}

// noProxy returns the hosts that are reached without a proxy.
func (s *Sandbox) noProxy() string {
	if s.foreign == nil {
		return "127.0.0.1"
	}
	at, err := url.Parse(s.foreign.URL())
	if err != nil || at.Hostname() == "127.0.0.1" {
		return "127.0.0.1"
	}
	return "127.0.0.1," + at.Hostname()
}
