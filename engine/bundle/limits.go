package bundle

import "cmp"

// Limits bound what decoding one bundle may cost, and what all of them may cost together. A zero field means its
// default.
type Limits struct {
	// Documents is how many documents a bundle may hold, the empty ones included. Each item of a list counts as one.
	// Default 10,000.
	Documents int
	// Bytes is how much a bundle may hold over all its Secrets, both before and after decompression. Default 32 MiB: a
	// Secret has at most 1 MiB, and manifests shrink about tenfold.
	Bytes int64
	// Memory is about how much memory the decoded objects and their JSON may take. Default 80 MiB. Ordinary manifests
	// take a few times their text; a list of a million empty maps takes much more.
	Memory int64
	// DocumentBytes is how large a document may be, as written and as JSON. Default 3 MiB, as much as an API server
	// accepts in one request.
	DocumentBytes int64
	// Elements is how many elements of maps and lists a document may seem to have: text that looks like an element
	// counts, too. A parser takes up to elementCost for each. Default 250,000; the largest CustomResourceDefinitions
	// have 100,000.
	Elements int
	// Depth is how deep maps and lists may be nested, the document itself being level 1. Default 256.
	Depth int

	// Decoding is how many bytes all bundles together may take while they are read and decoded, which waits for no
	// target. An upper bound is reserved. Default 160 MiB. The bundles of one namespace take at most four fifths of it.
	Decoding int64
	// InUse is how many bytes the decoded bundles that runs use may take together, InUsePerNamespace those of one
	// namespace, and InUsePerTarget those of one target, unless it is a single bundle. Bundles of less than freeBytes
	// do not count. Defaults: 256 MiB, 96 MiB and 32 MiB.
	InUse, InUsePerNamespace, InUsePerTarget int64
}

// freeBytes is how much a run may use without reserving it: the number of runs is bounded. So a run with an ordinary
// bundle never waits for other runs.
const freeBytes = 256 << 10

// withDefaults returns the limits with every zero field set to its default.
func (l Limits) withDefaults() Limits {
	return Limits{
		Documents:         cmp.Or(l.Documents, 10_000),
		Bytes:             cmp.Or(l.Bytes, 32<<20),
		Memory:            cmp.Or(l.Memory, 80<<20),
		DocumentBytes:     cmp.Or(l.DocumentBytes, 3<<20),
		Elements:          cmp.Or(l.Elements, 250_000),
		Depth:             cmp.Or(l.Depth, 256),
		Decoding:          cmp.Or(l.Decoding, 160<<20),
		InUse:             cmp.Or(l.InUse, 256<<20),
		InUsePerNamespace: cmp.Or(l.InUsePerNamespace, 96<<20),
		InUsePerTarget:    cmp.Or(l.InUsePerTarget, 32<<20),
	}
}
