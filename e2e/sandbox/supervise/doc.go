// Package supervise runs a program as a child process and restarts it when it exits, as a kubelet restarts a container: at
// once the first time, then after a backoff that doubles. A long run resets the backoff.
//
// A child never outlives its supervisor. It is ended when Run's context ends. On Linux the kernel kills it if the
// supervising process dies. It is in its own process group, so that a terminal's Ctrl-C reaches only the supervisor, which
// then ends its children in order.
//
// Only Run's goroutine uses the process. The methods read what it published.
package supervise
