package bundle

// Bundle is the decoded content of a ManagedResource's Secrets.
type Bundle struct {
	// Objects are the decoded objects in the order of their documents. Objects in mode Ignore are among them.
	Objects []Object
	// Faults say what could not be read, in the same order. None means that the bundle is complete.
	Faults []Fault
	// Checksum is the value for status.secretsDataChecksum.
	Checksum string
	// Hash identifies the content, see hashOf.
	Hash Hash
}

// Complete reports whether everything in the Secrets was read. What an incomplete bundle lacks may just be unreadable,
// so nothing may be pruned by it (BUG-2).
func (b *Bundle) Complete() bool {
	return len(b.Faults) == 0
}

// content is a bundle without names: what bundles of equal Secrets in different namespaces share. It never changes once
// it is made.
type content struct {
	hash     Hash
	checksum string
	objects  []item
	faults   []flaw
	pieces   []*piece // what can be shared with other contents
	// size is about how many bytes of memory it takes, pieces included.
	size int64
}

// bundle returns the view of the content for the Secrets it was decoded from, or for others of equal content.
func (c *content) bundle(sources []Source) *Bundle {
	b := &Bundle{Checksum: c.checksum, Hash: c.hash}
	if len(c.objects) > 0 {
		b.Objects = make([]Object, 0, len(c.objects))
	}
	for _, item := range c.objects {
		b.Objects = append(b.Objects, Object{
			Unstructured: item.object,
			Text:         item.text,
			Position:     item.in(sources),
			ModeIgnore:   item.modeIgnore,
		})
	}
	for _, flaw := range c.faults {
		b.Faults = append(b.Faults, Fault{Position: flaw.in(sources), Err: flaw.err})
	}
	return b
}
