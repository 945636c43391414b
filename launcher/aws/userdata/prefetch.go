package userdata

import (
	_ "embed"
	"slices"
)

// prefetchScript pulls the images of promised pods while the node's network starts. It is the same for every node: it reads the list of
// images from its own Node, so that no launch template depends on the images of a claim.
//
//go:embed prefetch.sh
var prefetchScript string

// PrefetchFile is the file name of the prefetch unit's part in the archive.
const PrefetchFile = "slipway-prefetch.sh"

// withPrefetch appends the prefetch unit after the parts that the node needs to join. It leaves the unit out if it does not fit: prefetching
// is optional.
func withPrefetch(parts []part) []part {
	unit := newPart(shellScriptType, prefetchScript)
	unit.header["Content-Disposition"] = []string{`attachment; filename="` + PrefetchFile + `"`}
	if all := append(slices.Clip(parts), unit); len(archive(all)) <= MaxBytes {
		return all
	}
	return parts
}
