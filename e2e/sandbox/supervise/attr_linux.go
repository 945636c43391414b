package supervise

import "syscall"

// attributes of a child. Pdeathsig follows the thread that forked, so that Run keeps its thread.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
