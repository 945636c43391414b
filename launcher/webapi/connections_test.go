package webapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// serving serves the handler as the API is served, until the test has ended, and returns the address.
func serving(t *testing.T, handler http.Handler) string {
	t.Helper()
	w := newWorld(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.serve(ctx, listener, handler) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// However many connections a client opens, so many are served at most. One that ends makes room for another.
func TestConnectionsAreBounded(t *testing.T) {
	address := serving(t, http.NotFoundHandler())
	open := make([]net.Conn, mostConnections)
	var err error
	for i := range open {
		if open[i], err = (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = open[i].Close() }()
	}
	served := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	if served(500*time.Millisecond) == nil {
		t.Errorf("a connection beside %d others is served", mostConnections)
	}
	_ = open[0].Close()
	if err := served(20 * time.Second); err != nil {
		t.Errorf("after the end of one another is not served: %v", err)
	}
}

// One connection of HTTP/2 has no more requests open than mostStreams.
func TestStreamsAreBounded(t *testing.T) {
	var mu sync.Mutex
	running, most, versions := map[string]int{}, 0, map[string]bool{}
	count := func(r *http.Request, n int) {
		mu.Lock()
		defer mu.Unlock()
		running[r.RemoteAddr] += n
		most, versions[r.Proto] = max(most, running[r.RemoteAddr]), true
	}
	address := serving(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		count(r, 1)
		time.Sleep(200 * time.Millisecond)
		count(r, -1)
	}))
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	get := func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		_ = answer.Body.Close()
	}
	get() // The client learns the bound.
	var clients sync.WaitGroup
	for range 5 * mostStreams {
		clients.Go(get)
	}
	clients.Wait()
	if most > mostStreams || most < 2 || !versions["HTTP/2.0"] {
		t.Errorf("%d requests of a connection are answered at a time, of %v, want %d at most", most, versions, mostStreams)
	}
}
