package main

// The fallback provides the certificate authorities of AWS's certificates if the system has none, as in slipway's own images.
import _ "golang.org/x/crypto/x509roots/fallback"
