package bundle

import "cmp"

// Limits bound what decoding one bundle may cost. A zero field means its default.
type Limits struct {
	// Documents is how many documents a bundle may hold, the empty ones included. Default 10,000.
	Documents int
	// Bytes is how much text a bundle may hold after decompression, over all its Secrets. Default 64 MiB: a Secret has
	// at most 1 MiB, and manifests shrink about tenfold.
	Bytes int64
	// Memory is about how much memory the decoded objects may take. Default 256 MiB. Ordinary manifests take a few times
	// their text; a list of a million empty maps takes much more.
	Memory int64
	// DocumentBytes is how large a document may be, as written and as JSON. Default 3 MiB, as much as an API server
	// accepts in one request.
	DocumentBytes int64
	// Depth is how deep maps and lists may be nested, the document itself being level 1. Default 256.
	Depth int
}

// withDefaults returns the limits with every zero field set to its default.
func (l Limits) withDefaults() Limits {
	return Limits{
		Documents:     cmp.Or(l.Documents, 10_000),
		Bytes:         cmp.Or(l.Bytes, 64<<20),
		Memory:        cmp.Or(l.Memory, 256<<20),
		DocumentBytes: cmp.Or(l.DocumentBytes, 3<<20),
		Depth:         cmp.Or(l.Depth, 256),
	}
}
