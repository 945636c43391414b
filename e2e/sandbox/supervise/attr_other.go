//go:build !linux

package supervise

import "syscall"

// attributes of a child; here a child does outlive a supervisor that was killed with SIGKILL.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
