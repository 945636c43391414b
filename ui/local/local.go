// Package local serves the page of package ui on the user's own machine, and passes its questions on to a launcher's API with the user's identity.
//
// The identity stays in the process: what the browser sends is not passed on, but for what it accepts and the ETag that it has. Only GET of paths
// below /api/v1/ reaches the launcher. Below /local/v1/ are paths of the process itself; a request there that is not a GET has to be one that only the
// page can send: JSON, which a browser sends to another origin only if that allows it, and this one never does. A page elsewhere on the web cannot ask: a request has to name this server as its Host, which keeps out names
// that were made to resolve to loopback (DNS rebinding), and a browser's request has to come from the page itself.
//
// A Server is safe for concurrent use. Serve returns when its context ends.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/ui"
)

const (
	// api is the path below which questions are passed on, own that of the process's own answers.
	api, own = "/api/v1/", "/local/v1/"
	// headerTimeout, writeTimeout and idleTimeout bound a request's header, an answer, and a connection without a request.
	headerTimeout, writeTimeout, idleTimeout = 10 * time.Second, time.Minute, 2 * time.Minute
	// mostHeader bounds a request's header, in bytes.
	mostHeader = 32 << 10
)

// Config is what a Server needs. Launcher and Transport are required.
type Config struct {
	// Launcher is the URL of the launcher's API without a path, such as https://127.0.0.1:8443.
	Launcher *url.URL
	// Transport reaches the launcher, and adds the user's identity.
	Transport http.RoundTripper
	// Own are the process's own answers, below /local/v1/; nil for none.
	Own http.Handler
}

// Serve answers on the listener until the context ends.
func Serve(ctx context.Context, listener net.Listener, c Config) error {
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	handler, err := c.Handler(port)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: mostHeader,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page on %s: %w", listener.Addr(), err)
	}
	return nil
}

// Handler returns what answers requests for the port.
func (c Config) Handler(port string) (http.Handler, error) {
	if c.Launcher == nil || c.Transport == nil {
		return nil, errors.New("serving the page: Launcher and Transport are required")
	}
	page, err := ui.Handler()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(ui.Path, page)
	mux.Handle(api, c.proxy())
	if c.Own != nil {
		mux.Handle(own, c.Own)
	}
	mux.Handle("GET /{$}", http.RedirectHandler(ui.Path, http.StatusFound))
	return guard(port, mux), nil
}

// guard refuses what does not come from the page, or from a program of the user's.
func guard(port string, next http.Handler) http.Handler {
	var hosts []string
	for _, name := range []string{"127.0.0.1", "::1", "localhost"} {
		hosts = append(hosts, net.JoinHostPort(name, port))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ui.Protect(w.Header())
		if !slices.Contains(hosts, r.Host) {
			refuse(w, http.StatusMisdirectedRequest, metav1.StatusReasonForbidden, fmt.Sprintf("the Host is %q, %s is expected", r.Host, hosts[0]))
			return
		}
		// Browsers send it to loopback too. A link elsewhere may lead to the page, and to nothing else.
		site := r.Header.Get("Sec-Fetch-Site")
		if site != "" && site != "same-origin" && site != "none" && (strings.HasPrefix(r.URL.Path, api) || strings.HasPrefix(r.URL.Path, own) || r.Header.Get("Sec-Fetch-Mode") != "navigate") {
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "the request comes from another page")
			return
		}
		if why := unasked(r); why != "" {
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// unasked returns why a request that may change something is not the page's, or that of a program of the user's; empty if it is.
func unasked(r *http.Request) string {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || !strings.HasPrefix(r.URL.Path, own) {
		return ""
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return "the request comes from another page"
	}
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		return fmt.Sprintf("the Content-Type is %q, application/json is expected", kind)
	}
	return ""
}

// proxy passes GET requests on to the launcher.
func (c Config) proxy() http.Handler {
	passed := &httputil.ReverseProxy{
		Transport: c.Transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = c.Launcher.Scheme, c.Launcher.Host, ""
			p.Out.Header = http.Header{}
			for _, name := range []string{"Accept", "If-None-Match"} {
				if v := p.In.Header.Get(name); v != "" {
					p.Out.Header.Set(name, v)
				}
			}
		},
		ModifyResponse: func(r *http.Response) error {
			kept := http.Header{}
			for _, name := range []string{"Content-Type", "Content-Length", "Etag", "Retry-After"} {
				if v := r.Header.Get(name); v != "" {
					kept.Set(name, v)
				}
			}
			r.Header = kept
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, http.StatusBadGateway, metav1.StatusReasonServiceUnavailable, "asking the launcher: "+err.Error())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", http.MethodGet)
			refuse(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "only GET is passed on to the launcher")
		case r.URL.RawPath != "" || path.Clean(r.URL.Path) != r.URL.Path:
			// No name of Kubernetes's needs an escape.
			refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "the path has parts that no name needs")
		default:
			passed.ServeHTTP(w, r)
		}
	})
}

// refuse answers with an error as the API server does.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // The browser may be gone.
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}
