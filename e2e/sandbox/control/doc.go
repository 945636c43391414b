// Package control is how a command finds a sandbox that runs in another process of the same user, and tells it things.
//
// Each sandbox has a name and owns a folder of that name under slipway-sandbox-UID in the temporary folder: everything it
// writes is in there. A file NAME.lock beside it is locked as long as the sandbox lives, also when it is killed, so that what a
// killed one left behind is known for that and removed by the next. The folder holds state.json (State) and control.sock,
// where Serve answers a Client.
//
// Serve runs an HTTP server until its context ends; nothing else here starts a goroutine.
package control
