// Package bind decides when a promised pod is bound to its node and binds it. At, Check and Meanwhile are pure; Binder is the one
// edge that writes bindings.
package bind
