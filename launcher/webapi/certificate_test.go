package webapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

// volume is a Secret's volume: the kubelet replaces the link to its files at once.
type volume struct{ dir string }

// write renews the certificate, and returns its serial number.
func (v volume) write(t *testing.T) string {
	t.Helper()
	chain, key, err := cert.GenerateSelfSignedCertKey("slipway-launcher", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": chain, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(files, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := filepath.Join(v.dir, "..data_tmp")
	if err := os.Symlink(files, next); err != nil {
		t.Fatal(err)
	}
	old, _ := filepath.EvalSymlinks(filepath.Join(v.dir, "..data"))
	if err := os.Rename(next, filepath.Join(v.dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if old != "" {
		if err := os.RemoveAll(old); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.SerialNumber.String()
}

// shown returns the serial number of the certificate that a new connection gets.
func shown(t *testing.T, address string) string {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	c, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// A certificate that is renewed while the API is served is shown to the connections that follow.
func TestRenewedCertificate(t *testing.T) {
	v, w := volume{t.TempDir()}, newWorld(t)
	first := v.write(t)
	w.config.CertFile, w.config.KeyFile = filepath.Join(v.dir, "tls.crt"), filepath.Join(v.dir, "tls.key")
	for _, file := range []string{w.config.CertFile, w.config.KeyFile} {
		if err := os.Symlink(filepath.Join("..data", filepath.Base(file)), file); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.serve(ctx, listener, http.NotFoundHandler()) }()
	address := listener.Addr().String()
	if got := shown(t, address); got != first {
		t.Errorf("the certificate has the serial number %s, want %s", got, first)
	}
	second := v.write(t)
	for end := time.Now().Add(30 * time.Second); shown(t, address) != second; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a new connection still gets the certificate from before the renewal")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
