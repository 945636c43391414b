package server

import (
	"os"
	"path/filepath"
	"testing"
)

// No other user can connect between the creation of the socket and the change of its mode: Linux gives the file the mode of the socket.
func TestSocketIsNeverOpenToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	listener, err := bind(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != socketMode {
		t.Errorf("a new socket has mode %04o, want %04o", mode, socketMode)
	}
}
