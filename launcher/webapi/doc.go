// Package webapi serves what slipway's nodes and pods do as JSON over HTTPS, below /api/v1, from the launcher's informers.
//
// It only reads. Who asks is known by a bearer token (TokenReview) or by a client certificate of the cluster's authority, and sees what the API
// server would show them (SubjectAccessReview): nodes to who may list NodeClaims, pods to who may list or get pods in their namespace. Nothing is
// served to others, and errors are metav1.Status objects as those of the API server.
//
// The page of package ui is served beside it, at /ui/, to everyone: there is no data in it, and it asks the API with the viewer's identity.
//
// A list is computed at most once for all who ask within a second, and less often where computing takes long. It has an ETag, so that a client
// which asks again gets it only if it has changed. The number of requests at a time, the size of a request and its time are bounded.
//
// Server is safe for concurrent use. Its Run returns when its context ends. Meanwhile goroutines follow the authority of client certificates, and the
// files of the server's own certificate: a renewed one is read without a restart.
package webapi
