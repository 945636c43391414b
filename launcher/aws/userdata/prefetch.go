package userdata

import (
	_ "embed"
	"slices"
)

// prefetchScript pulls the images of promised pods while the node's network starts. It is the same for every node: what it
// pulls, it reads from its own Node, so that no launch template depends on the images of a claim.
//
//go:embed prefetch.sh
var prefetchScript string

// PrefetchFile is the file name that the part with the prefetch unit has in the archive.
const PrefetchFile = "slipway-prefetch.sh"

// withPrefetch adds the unit behind what the node needs to join, unless there is no room for it: no node fails for want of a
// faster start.
func withPrefetch(parts []part) []part {
	unit := newPart(shellScriptType, prefetchScript)
	unit.header["Content-Disposition"] = []string{`attachment; filename="` + PrefetchFile + `"`}
	if all := append(slices.Clip(parts), unit); len(archive(all)) <= MaxBytes {
		return all
	}
	return parts
}
