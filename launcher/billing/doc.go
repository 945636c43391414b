// Package billing records what nodes cost, by package bill, in ConfigMaps of the cluster: one for each of the last 31 days of UTC. Look is pure: it
// turns the objects of the cluster, prices and commitments into an observation. One goroutine looks every ten seconds while the launcher leads, and
// writes every minute; it ends with the context of Run. After a restart the record goes on where it was written last.
package billing
