package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Actions are what a client can request of a sandbox. They may be called concurrently.
type Actions interface {
	// Kill ends a process of the sandbox with SIGKILL: "launcher" or "scheduler".
	Kill(name string) error
}

// Serve answers clients on the socket of the folder until ctx ends.
func Serve(ctx context.Context, folder string, actions Actions) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", SocketPath(folder))
	if err != nil {
		return fmt.Errorf("serving the control socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /kill/{name}", func(w http.ResponseWriter, r *http.Request) {
		if err := actions.Kill(r.PathValue("name")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the control socket: %w", err)
	}
	return nil
}

// Client sends requests to a running sandbox.
type Client struct {
	http   *http.Client
	folder string
}

// NewClient returns a client of the sandbox; call Close when done.
func NewClient(state State) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", SocketPath(state.Folder))
	}
	return &Client{folder: state.Folder, http: &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 10 * time.Second}}
}

// Close ends the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Kill ends a process of the sandbox with SIGKILL.
func (c *Client) Kill(ctx context.Context, name string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox/kill/"+url.PathEscape(name), nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("asking the sandbox: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("reading the sandbox's answer: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return nil
	}
	return errors.New(strings.TrimSpace(string(text)))
}
