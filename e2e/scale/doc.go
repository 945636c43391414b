// Package scale measures what thousands of nodes cost both processes and the API server. Its figures have goals, which are printed beside
// them; a run fails where a pod or an instance is lost, and for nothing else.
package scale
