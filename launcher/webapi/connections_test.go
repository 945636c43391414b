package webapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"
)

// However many connections a client opens, so many are served at most. One that ends makes room for another.
func TestConnectionsAreBounded(t *testing.T) {
	w := newWorld(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.serve(ctx, listener, http.NotFoundHandler()) }()
	open := make([]net.Conn, mostConnections)
	for i := range open {
		if open[i], err = (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = open[i].Close() }()
	}
	served := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", listener.Addr().String())
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
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
