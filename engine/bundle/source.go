package bundle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Source is one Secret of a bundle, as it was read.
type Source struct {
	// Namespace and Name say which Secret it is.
	Namespace, Name string
	// UID and ResourceVersion say which version of it. Decoding does not use them.
	UID             types.UID
	ResourceVersion string
	// Data is the data of the Secret. It is never changed. Decoding does not keep it; Cache.Keep does.
	Data map[string][]byte
}

// keys returns the data keys in the order they are decoded.
func (s Source) keys() []string {
	return slices.Sorted(maps.Keys(s.Data))
}

// Hash identifies the content of a bundle: equal hashes mean equal keys and values in the same order of Secrets. Names,
// UIDs and resource versions of the Secrets are not part of it.
type Hash [sha256.Size]byte

// String returns the hash as lower-case hexadecimal digits.
func (h Hash) String() string {
	return hex.EncodeToString(h[:])
}

// hashOf returns the hash that the bundle of these Secrets has, without decoding it.
func hashOf(sources []Source) Hash {
	digest := sha256.New()
	writeLength(digest, len(sources))
	for _, source := range sources {
		writeLength(digest, len(source.Data))
		for _, key := range source.keys() {
			writeLength(digest, len(key))
			digest.Write([]byte(key))
			writeLength(digest, len(source.Data[key]))
			digest.Write(source.Data[key])
		}
	}
	return Hash(digest.Sum(nil))
}

// writeLength separates the parts of a hash, so that moving a byte from one part to the next changes it.
func writeLength(digest hash.Hash, length int) {
	var buffer [8]byte
	binary.BigEndian.PutUint64(buffer[:], uint64(length))
	digest.Write(buffer[:])
}
