// Package bufferpods makes the pods of the CapacityBuffers of an input, as the launcher and the scheduler would count them.
//
// The package is pure: what it reads of the input are functions.
package bufferpods
