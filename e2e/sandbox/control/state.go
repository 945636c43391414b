package control

import (
	"path/filepath"
	"time"
)

const (
	stateFile  = "state.json"
	socketFile = "control.sock"
)

// State is the public description of a running sandbox.
type State struct {
	// Name is the sandbox's.
	Name string `json:"name"`
	// Folder holds all its files.
	Folder string `json:"folder"`
	// PID is that of the sandbox's process.
	PID int `json:"pid"`
	// Started is when it was ready.
	Started time.Time `json:"started"`
	// Kubeconfig is the administrator's.
	Kubeconfig string `json:"kubeconfig"`
	// AWS is the endpoint URL of its AWS.
	AWS string `json:"aws"`
	// Region is that of its AWS.
	Region string `json:"region"`
	// Logs are the log files, by the name of the writer.
	Logs map[string]string `json:"logs"`
}

// SocketPath returns the path of the control socket of the sandbox with this folder.
func SocketPath(folder string) string { return filepath.Join(folder, socketFile) }
