package local

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
)

// Dial opens a connection to an address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Forwarded returns how a launcher is reached by connections that dial opens to it, with the identity of a kubeconfig's user: their token, or their
// client certificate. The launcher's own certificate is made at its start and no authority knows it: that the connection ends at the launcher is
// what the API server and the kubelet vouch for.
func Forwarded(user *rest.Config, dial Dial) (Config, error) {
	transport, err := identified(user, true, dial)
	return Config{Launcher: &url.URL{Scheme: "https", Host: "slipway-launcher"}, Transport: transport}, err
}

// At returns how the launcher at a URL such as https://127.0.0.1:8443 is reached. On loopback its certificate may be its own; elsewhere an authority
// that the system knows must have signed it, since the user's token is sent there.
func At(user *rest.Config, address string) (Config, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.User != nil || u.RawQuery != "" {
		return Config{}, fmt.Errorf("reading --api %q: https://HOST:PORT is expected", address)
	}
	ip := net.ParseIP(u.Hostname())
	transport, err := identified(user, ip != nil && ip.IsLoopback(), nil)
	return Config{Launcher: u, Transport: transport}, err
}

// identified returns a transport that adds the user's identity. The API server's own address, authority and proxy are not the launcher's.
func identified(user *rest.Config, own bool, dial Dial) (http.RoundTripper, error) {
	c := rest.CopyConfig(user)
	c.CAData, c.CAFile, c.ServerName, c.Insecure, c.Proxy = nil, "", "", own, nil
	c.Host, c.Dial = "", dial
	if dial != nil { // Without a function, client-go takes the proxy of the environment.
		c.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	if c.Impersonate.UserName != "" {
		return nil, fmt.Errorf("using the kubeconfig's identity: it impersonates %s, which the launcher's API does not support", c.Impersonate.UserName)
	}
	return rest.TransportFor(c)
}
