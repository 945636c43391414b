// Package buffer keeps room for the pods of CapacityBuffers (feature gate CapacityBuffer).
//
// In each pass it resolves the buffers (package internal/buffersize), asks the scheduler to find room for their pods where anything has changed that the
// answer depends on, and writes the status. The pods exist nowhere: the scheduler plans them after all pending pods, launches what is missing,
// and moves them with the pods of their node. Nodes that have room for them are not given back as empty.
//
// Goroutines: the one that calls Run. Its effects run under leadership.
package buffer
