package supervise

import "syscall"

// attributes returns the attributes of a child. Pdeathsig depends on the thread that forked, so Run keeps its thread.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
