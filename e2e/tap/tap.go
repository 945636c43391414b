package tap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Config configures a Tap. Every field is required.
type Config struct {
	// Process is the name of the program that sends the requests.
	Process string
	// Server is the URL of the server.
	Server string
	// Transport reaches the server.
	Transport http.RoundTripper
	// Read returns the effect of a request; ok is false where it changes nothing. It gets the body and must not use the
	// request's reader.
	Read func(r *http.Request, body []byte) (e Effect, ok bool)
	// Journal records the effects.
	Journal *Journal
}

// line is the connection to a program. It is closed when it is cut.
type line chan struct{}

func (l line) isCut() bool {
	select {
	case <-l:
		return true
	default:
		return false
	}
}

// Tap is the proxy of one program to one server.
type Tap struct {
	cfg      Config
	server   *url.URL
	listener net.Listener
	proxy    *httputil.ReverseProxy

	mu sync.Mutex
	// line is closed when it is cut. Restore makes a new one.
	line line
}

// New returns a tap that listens. It serves once Run is called.
func New(cfg Config) (*Tap, error) {
	if cfg.Process == "" || cfg.Server == "" || cfg.Transport == nil || cfg.Read == nil || cfg.Journal == nil {
		return nil, errors.New("tap: every field of Config is required")
	}
	server, err := url.Parse(cfg.Server)
	if err != nil {
		return nil, fmt.Errorf("starting the tap of %s: %w", cfg.Process, err)
	}
	t := &Tap{cfg: cfg, server: server}
	t.Restore()
	t.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { t.rewrite(r.Out) },
		Transport:     cfg.Transport,
		FlushInterval: -1, // Watch events are sent at once.
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	if t.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("starting the tap of %s: %w", cfg.Process, err)
	}
	return t, nil
}

// URL returns the address for the program, without a trailing slash.
func (t *Tap) URL() string { return "http://" + t.listener.Addr().String() }

// Run serves until ctx ends.
func (t *Tap) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: http.HandlerFunc(t.serve), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}
	stop := context.AfterFunc(ctx, func() {
		t.Cut()
		_ = server.Close()
	})
	defer stop()
	if err := server.Serve(t.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the tap of %s: %w", t.cfg.Process, err)
	}
	return nil
}

// Cut ends all open requests and refuses new ones until Restore. Effects that have reached the server are carried out.
func (t *Tap) Cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.line.isCut() {
		close(t.line)
	}
}

// Restore ends what Cut began.
func (t *Tap) Restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.line == nil || t.line.isCut() {
		t.line = make(line)
	}
}

func (t *Tap) current() line {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.line
}

func (t *Tap) rewrite(out *http.Request) {
	out.URL.Scheme, out.URL.Host = t.server.Scheme, t.server.Host
}

func (t *Tap) serve(w http.ResponseWriter, r *http.Request) {
	now := t.current()
	if now.isCut() {
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if found, ok := t.cfg.Read(r, body); ok {
		found.Process = t.cfg.Process
		t.effect(w, r, now, found)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-now:
			cancel()
		case <-ctx.Done():
		}
	}()
	t.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// effect forwards a request that changes something. The request is carried out as a whole or not at all, even if the program
// ends meanwhile.
func (t *Tap) effect(w http.ResponseWriter, r *http.Request, now line, found Effect) {
	e := t.cfg.Journal.begin(found)
	if t.cfg.Journal.ask(e, Before) || now.isCut() || r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	out := r.Clone(context.WithoutCancel(r.Context()))
	out.RequestURI = ""
	t.rewrite(out)
	response, err := t.cfg.Transport.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	t.cfg.Journal.answered(e, response.StatusCode)
	if t.cfg.Journal.ask(e, After) || err != nil || now.isCut() {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	// A program that has ended does not read the response.
	_, _ = w.Write(answer)
}
