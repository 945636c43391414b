// Package supervise runs a program as a child process and restarts it when it exits, as a kubelet restarts a container: at
// once the first time, then after a backoff that doubles and is forgotten after a quiet time.
//
// A child never outlives its supervisor: it is ended when Run's context ends, and on Linux the kernel kills it should the
// supervising process die without a word. It is in a process group of its own, so that a terminal's Ctrl-C reaches the
// supervisor alone, which then ends its children in order.
//
// Run is the only goroutine that touches the process; the methods read what it published.
package supervise
