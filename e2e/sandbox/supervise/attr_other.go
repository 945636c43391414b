//go:build !linux

package supervise

import "syscall"

// attributes returns the attributes of a child. On these systems a child outlives a supervisor that is killed with SIGKILL.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
