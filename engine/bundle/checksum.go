package bundle

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxChecksumInput bounds the work for one checksum to well under a second or two.
const maxChecksumInput = 1 << 30

// checksum returns status.secretsDataChecksum as lower-case hexadecimal SHA-256. A key's raw value is fed
// once for each object decoded from it, except those in mode Ignore; names are not fed. Gardener's resource manager
// computes it the same way, so that taking a ManagedResource over does not look like a change of its data.
//
// A value with very many objects would be fed very many times. Beyond 1 GiB in total, each further value is fed once;
// all that follows is that taking over such a ManagedResource passes through "progressing".
func checksum(sources []Source, objects []item) string {
	digest := sha256.New()
	var fed int64
	for i, object := range objects {
		if object.modeIgnore {
			continue
		}
		value := sources[object.source].Data[object.key]
		sameKey := i > 0 && objects[i-1].source == object.source && objects[i-1].key == object.key
		if sameKey && fed > maxChecksumInput {
			continue
		}
		digest.Write(value)
		fed += int64(len(value))
	}
	return hex.EncodeToString(digest.Sum(nil))
}
