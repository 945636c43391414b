package main

// Certificate authorities that sign AWS's certificates, where the system has none, as in slipway's own images.
import _ "golang.org/x/crypto/x509roots/fallback"
