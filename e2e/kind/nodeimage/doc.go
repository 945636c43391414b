// Command nodeimage builds kind's node image where no registry can be reached: `make kind-image`. The base is Debian's, made by
// debootstrap; Kubernetes, etcd and CoreDNS are built from their Go modules, and so is kind itself, whose files come from its
// module. It needs Linux, root, Debian's archive and the Go module proxy, and no Docker.
//
// What is expensive is made once: a folder or file that is there is kept, `make clean` removes it.
package main
