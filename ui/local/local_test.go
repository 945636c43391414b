package local

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// The tests run behind a proxy. Go does not ask it for addresses of loopback.
func TestMain(m *testing.M) {
	if err := os.Setenv("HTTPS_PROXY", "http://proxy.invalid:3128"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const secret = "the-users-token"

// launcher is a TLS server that answers with what it was asked.
func launcher(t *testing.T) (*httptest.Server, *[]*http.Request) {
	t.Helper()
	var asked []*http.Request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r)
		if r.Header.Get("If-None-Match") == `"a"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		for name, value := range map[string]string{"ETag": `"a"`, "Content-Type": "application/json", "Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*"} {
			w.Header().Set(name, value)
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(server.Close)
	return server, &asked
}

// world returns a page's handler on port 80 before a launcher.
func world(t *testing.T) (http.Handler, *[]*http.Request) {
	t.Helper()
	server, asked := launcher(t)
	c, err := At(&rest.Config{Host: "https://example.invalid", BearerToken: secret}, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := c.Handler("8844")
	if err != nil {
		t.Fatal(err)
	}
	return handler, asked
}

func ask(t *testing.T, h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A question goes to the launcher with the user's identity and without what the browser sent; the answer comes back without the identity.
func TestQuestionsHaveTheUsersIdentity(t *testing.T) {
	h, asked := world(t)
	got := ask(t, h, http.MethodGet, "http://127.0.0.1:8844/api/v1/pods?namespace=a", "Cookie", "c=d", "Authorization", "Bearer other", "Origin", "http://127.0.0.1:8844", "X-Forwarded-For", "1.2.3.4", "X-Remote-User", "admin", "Impersonate-User", "admin")
	if got.Code != http.StatusOK || got.Body.String() != "{}" || got.Header().Get("ETag") != `"a"` {
		t.Fatalf("%d %v %s", got.Code, got.Header(), got.Body)
	}
	if got.Header().Get("Set-Cookie") != "" || got.Header().Get("Access-Control-Allow-Origin") != "" || got.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("the answer has the headers %v", got.Header())
	}
	if len(*asked) != 1 {
		t.Fatalf("%d questions", len(*asked))
	}
	r := (*asked)[0]
	if r.URL.String() != "/api/v1/pods?namespace=a" || r.Header.Get("Authorization") != "Bearer "+secret {
		t.Errorf("asked for %s with %v", r.URL, r.Header)
	}
	for _, name := range []string{"Cookie", "Origin", "X-Forwarded-For", "X-Remote-User", "Impersonate-User"} {
		if r.Header.Get(name) != "" {
			t.Errorf("%s is passed on", name)
		}
	}
	if strings.Contains(got.Body.String(), secret) {
		t.Error("the browser gets the token")
	}
	if got := ask(t, h, http.MethodGet, "http://localhost:8844/api/v1/pods", "If-None-Match", `"a"`); got.Code != http.StatusNotModified {
		t.Errorf("%d for a page that has the answer", got.Code)
	}
}

// What does not come from the page reaches nothing.
func TestStrangersAreRefused(t *testing.T) {
	h, asked := world(t)
	for _, c := range []struct {
		method, target string
		header         []string
		want           int
	}{
		{http.MethodGet, "http://rebound.example:8844/api/v1/nodes", nil, http.StatusMisdirectedRequest},
		{http.MethodGet, "http://rebound.example:8844/ui/", nil, http.StatusMisdirectedRequest},
		{http.MethodGet, "http://127.0.0.1:8845/api/v1/nodes", nil, http.StatusMisdirectedRequest},
		{http.MethodGet, "http://127.0.0.1/api/v1/nodes", nil, http.StatusMisdirectedRequest},
		{http.MethodGet, "http://127.0.0.1.nip.example:8844/", nil, http.StatusMisdirectedRequest},
		{http.MethodGet, "http://127.0.0.1:8844/api/v1/nodes", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{http.MethodGet, "http://127.0.0.1:8844/api/v1/nodes", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate"}, http.StatusForbidden},
		{http.MethodGet, "http://127.0.0.1:8844/ui/app.js", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, http.StatusForbidden},
		{http.MethodPost, "http://127.0.0.1:8844/api/v1/nodes", nil, http.StatusMethodNotAllowed},
		{http.MethodHead, "http://127.0.0.1:8844/api/v1/nodes", nil, http.StatusMethodNotAllowed},
		{http.MethodOptions, "http://127.0.0.1:8844/api/v1/nodes", nil, http.StatusMethodNotAllowed},
		{http.MethodDelete, "http://127.0.0.1:8844/api/v1/nodes/n", nil, http.StatusMethodNotAllowed},
		{http.MethodPost, "http://127.0.0.1:8844/ui/", nil, http.StatusMethodNotAllowed},
		{http.MethodGet, "http://127.0.0.1:8844/api/v1/nodes/..%2f..%2f..%2fmetrics", nil, http.StatusBadRequest},
		{http.MethodGet, "http://127.0.0.1:8844/api/v1/nodes/%2e%2e/%2e%2e/%2e%2e/metrics", nil, http.StatusBadRequest},
		{http.MethodGet, "http://127.0.0.1:8844/api/v1/../../metrics", nil, http.StatusTemporaryRedirect},
		{http.MethodGet, "http://127.0.0.1:8844/metrics", nil, http.StatusNotFound},
		{http.MethodGet, "http://127.0.0.1:8844/api/v2/nodes", nil, http.StatusNotFound},
	} {
		got := ask(t, h, c.method, c.target, c.header...)
		if got.Code != c.want || got.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s %s %v: %d %v, want %d", c.method, c.target, c.header, got.Code, got.Header(), c.want)
		}
	}
	if len(*asked) > 0 {
		t.Errorf("the launcher was asked %v", *asked)
	}
	// A link on another page may lead here.
	if got := ask(t, h, http.MethodGet, "http://127.0.0.1:8844/ui/", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"); got.Code != http.StatusOK {
		t.Errorf("a link from elsewhere is answered with %d", got.Code)
	}
	if got := ask(t, h, http.MethodGet, "http://localhost:8844/"); got.Code != http.StatusFound || got.Header().Get("Location") != "/ui/" {
		t.Errorf("the root is answered with %d %v", got.Code, got.Header())
	}
}

// A launcher that is gone is reported as the API server would report it.
func TestLauncherIsGone(t *testing.T) {
	c, err := At(&rest.Config{BearerToken: secret}, "https://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Handler("8844")
	if err != nil {
		t.Fatal(err)
	}
	got := ask(t, h, http.MethodGet, "http://127.0.0.1:8844/api/v1/nodes")
	if got.Code != http.StatusBadGateway || !strings.Contains(got.Body.String(), `"kind":"Status"`) || !strings.Contains(got.Body.String(), "asking the launcher") || strings.Contains(got.Body.String(), secret) {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// What may change something is answered for the page and for the user's programs alone.
func TestOwnAnswersAreForThePageAlone(t *testing.T) {
	asked := 0
	c, err := At(&rest.Config{}, "https://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	c.Own = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ })
	h, err := c.Handler("8844")
	if err != nil {
		t.Fatal(err)
	}
	const target = "http://127.0.0.1:8844/local/v1/whatif"
	for i, tt := range []struct {
		method string
		header []string
		want   int
	}{
		{http.MethodPost, nil, http.StatusForbidden},
		{http.MethodPost, []string{"Content-Type", "text/plain"}, http.StatusForbidden},
		{http.MethodPost, []string{"Content-Type", "application/json", "Origin", "http://evil.example"}, http.StatusForbidden},
		{http.MethodPost, []string{"Content-Type", "application/json", "Origin", "null"}, http.StatusForbidden},
		{http.MethodPost, []string{"Content-Type", "application/json", "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{http.MethodGet, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, http.StatusForbidden},
		{http.MethodGet, nil, http.StatusOK},
		{http.MethodPost, []string{"Content-Type", "application/json"}, http.StatusOK},
		{http.MethodPost, []string{"Content-Type", "application/json", "Origin", "http://127.0.0.1:8844", "Sec-Fetch-Site", "same-origin"}, http.StatusOK},
	} {
		before := asked
		if got := ask(t, h, tt.method, target, tt.header...); got.Code != tt.want || (asked > before) != (tt.want == http.StatusOK) {
			t.Errorf("%d: %s %v: %d, want %d", i, tt.method, tt.header, got.Code, tt.want)
		}
	}
	if got := ask(t, h, http.MethodPost, "http://rebound.example:8844/local/v1/whatif", "Content-Type", "application/json"); got.Code != http.StatusMisdirectedRequest {
		t.Errorf("another name is answered with %d", got.Code)
	}
}

// The user's token goes to a launcher on loopback, or to one whose certificate is verified.
func TestTokenIsNotSentToStrangers(t *testing.T) {
	server, asked := launcher(t)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	// localhost is a name: what it resolves to is not known here.
	c, err := At(&rest.Config{BearerToken: secret}, "https://localhost:"+address.Port())
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Handler("8844")
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, h, http.MethodGet, "http://127.0.0.1:8844/api/v1/nodes"); got.Code != http.StatusBadGateway || !strings.Contains(got.Body.String(), "certificate") || len(*asked) > 0 {
		t.Errorf("%d %s, %d questions", got.Code, got.Body, len(*asked))
	}
	for _, bad := range []string{"http://127.0.0.1:1", "127.0.0.1:1", "https://", "https://a/b", "https://u:p@127.0.0.1:1", "https://127.0.0.1:1?a=b"} {
		if _, err := At(&rest.Config{}, bad); err == nil || !strings.HasPrefix(err.Error(), "reading --api") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := At(&rest.Config{Impersonate: rest.ImpersonationConfig{UserName: "a"}}, "https://127.0.0.1:1"); err == nil {
		t.Error("an identity that the API would not know is taken")
	}
}

// Serve answers until its context ends.
func TestServe(t *testing.T) {
	server, _ := launcher(t)
	c, err := At(&rest.Config{BearerToken: secret}, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, listener, c) }()
	answer, err := (&http.Client{Timeout: time.Minute}).Get("http://" + listener.Addr().String() + "/api/v1/nodes")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", answer, err)
	}
	_ = answer.Body.Close()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A connection that is forwarded goes through no proxy, neither the kubeconfig's nor the environment's. One to an address uses the environment's.
func TestForwardedWithoutProxy(t *testing.T) {
	server, asked := launcher(t)
	var dialed []string
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed = append(dialed, address)
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	user := &rest.Config{Host: "https://example.invalid", BearerToken: secret, Proxy: func(*http.Request) (*url.URL, error) { return url.Parse("http://kubeconfig.invalid:3128") }}
	c, err := Forwarded(user, dial)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Launcher.JoinPath("/api/v1/pods").String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%v, dialed %v", err, dialed)
	}
	_ = answer.Body.Close()
	if len(dialed) != 1 || dialed[0] != "slipway-launcher:443" || len(*asked) != 1 || (*asked)[0].Header.Get("Authorization") != "Bearer "+secret {
		t.Errorf("dialed %v, asked %d times", dialed, len(*asked))
	}
	if c, err = At(user, "https://launcher.invalid:8443"); err != nil {
		t.Fatal(err)
	}
	if r.URL, err = c.Launcher.Parse("/api/v1/pods"); err != nil {
		t.Fatal(err)
	}
	if answer, err := c.Transport.RoundTrip(r); err == nil || !strings.Contains(err.Error(), "proxy.invalid") {
		if err == nil {
			_ = answer.Body.Close()
		}
		t.Errorf("an address elsewhere: %v, want the proxy of the environment to be asked", err)
	}
}
