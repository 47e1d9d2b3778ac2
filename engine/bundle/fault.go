package bundle

import (
	"errors"
	"fmt"
	"strings"
)

// Fault is a document, or a whole key, that could not be read.
type Fault struct {
	Position
	// Err says why. Its text is one line and quotes nothing of the content.
	Err error
}

// String returns position and reason in one line.
func (f Fault) String() string {
	return f.Position.String() + ": " + f.Err.Error()
}

// flaw is a Fault without the Secret's name.
type flaw struct {
	place
	err error
}

// maxFaultsInMessage bounds the message of a condition; once ten documents are fixed, the next ten are shown.
const maxFaultsInMessage = 10

// FaultMessage returns all faults as one text for a condition's message, a line each, cut after ten. It is empty for a
// complete bundle.
func (b *Bundle) FaultMessage() string {
	lines := make([]string, 0, maxFaultsInMessage+1)
	for i, fault := range b.Faults {
		if i == maxFaultsInMessage {
			lines = append(lines, fmt.Sprintf("and %d more", len(b.Faults)-i))
			break
		}
		lines = append(lines, fault.String())
	}
	return strings.Join(lines, "\n")
}

// Reasons for faults that tests and callers may distinguish with errors.Is.
var (
	// errStreamEndsEarly means that a Brotli stream was cut.
	errStreamEndsEarly = errors.New("the Brotli stream ends early")
	// errStreamDamaged means that a Brotli stream cannot be decompressed.
	errStreamDamaged = errors.New("the Brotli stream is damaged, or the value is not Brotli-compressed")
	// errStreamFollowed means that there is something behind the end of a Brotli stream.
	errStreamFollowed = errors.New("the Brotli stream is followed by other data")
	// errTooManyDocuments means that Limits.Documents was reached. Nothing behind that point was read.
	errTooManyDocuments = errors.New("the ManagedResource has too many documents")
	// ErrTooManyBytes means that Limits.Bytes or Limits.Memory was reached. Nothing behind that point was read. If the
	// data of the Secrets exceeds Limits.Bytes before decompression, Session.Add returns it, and nothing was read at
	// all.
	ErrTooManyBytes = errors.New("the ManagedResource has too much data")
	// errTooManyFaults means that reading was given up after 100 faults.
	errTooManyFaults = errors.New("too many faults, the rest was not read")
	// errDocumentTooLarge means that a document exceeds Limits.DocumentBytes, as written or with its aliases expanded.
	errDocumentTooLarge = errors.New("the document is too large")
	// errTooManyElements means that a document exceeds Limits.Elements.
	errTooManyElements = errors.New("the document has too many elements")
	// errGenerateName means that an object leaves its name to the API server.
	errGenerateName = errors.New("the object has metadata.generateName instead of metadata.name: " +
		"name it, for every apply would make one more object")
	// errTooDeep means that a document exceeds Limits.Depth.
	errTooDeep = errors.New("maps and lists are nested too deeply")
)
