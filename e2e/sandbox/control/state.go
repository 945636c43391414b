package control

import (
	"path/filepath"
	"time"
)

const (
	stateFile  = "state.json"
	socketFile = "control.sock"
)

// State is what others need to know of a running sandbox.
type State struct {
	// Name of the sandbox.
	Name string `json:"name"`
	// Folder with all its files.
	Folder string `json:"folder"`
	// PID of the process that runs it.
	PID int `json:"pid"`
	// Started is when it was ready.
	Started time.Time `json:"started"`
	// Kubeconfig is the administrator's.
	Kubeconfig string `json:"kubeconfig"`
	// AWS is the endpoint URL of its AWS.
	AWS string `json:"aws"`
	// Region of its AWS.
	Region string `json:"region"`
	// Logs are the log files by the name of what wrote them.
	Logs map[string]string `json:"logs"`
}

// SocketPath is where the sandbox with this folder listens.
func SocketPath(folder string) string { return filepath.Join(folder, socketFile) }
