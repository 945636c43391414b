// Package control lets a command find a sandbox that runs in another process of the same user, and control it.
//
// Each sandbox has a name and owns a folder of that name under slipway-sandbox-UID in the temporary folder, which holds all
// its files. The file NAME.lock beside the folder is locked as long as the sandbox's process lives. So a folder without a
// lock was left by a killed sandbox, and the next one removes it. The folder holds state.json (State) and control.sock, on
// which Serve answers a Client.
//
// Serve runs an HTTP server until its context ends. No other function starts a goroutine.
package control
