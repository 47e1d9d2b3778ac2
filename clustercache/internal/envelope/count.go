package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trellis-hub/trellis/untrusted"
)

// MaxElements bounds the fields of a message and of those within it. An element of a list that is empty takes two bytes
// in a message, and more than a hundred once it is decoded. The most that API servers accept of one object, 256 KiB of
// annotations, has fewer as long as they are of usual length.
const MaxElements = 16 << 10

// nested are the fields that are messages with lists in them, by how deep they are: the metadata of an object and the
// details of a Status; of the metadata labels, annotations, owner references and managed fields.
var nested = [][]protowire.Number{{1, 5}, {11, 12, 13, 17}}

// Count returns an *untrusted.ExceededError if the metadata of an object, or a Status, has more than MaxElements
// elements, and another error if it is broken. It allocates nothing.
func Count(message []byte) error {
	_, err := count(message, 0, MaxElements)
	return err
}

// Elements returns how many elements the object in a message has. It is an error if they are more than MaxElements.
func Elements(text []byte) (int, error) {
	message, ok := bytes.CutPrefix(text, prefix)
	if !ok {
		return 0, errors.New("it is not what API servers send")
	}
	_, object, err := parts(message)
	if err != nil {
		return 0, fmt.Errorf("its envelope: %w", err)
	}
	left, err := count(object, 0, MaxElements)
	if err != nil {
		return 0, err
	}
	return MaxElements - left, nil
}

// count returns how many elements there may be besides those of a message.
func count(message []byte, depth, left int) (int, error) {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return 0, protowire.ParseError(length)
		}
		message = message[length:]
		if length = protowire.ConsumeFieldValue(number, kind, message); length < 0 {
			return 0, protowire.ParseError(length)
		}
		if left--; left < 0 {
			return 0, &untrusted.ExceededError{What: "elements", Most: MaxElements}
		}
		if kind == protowire.BytesType && depth < len(nested) && slices.Contains(nested[depth], number) {
			within, _ := protowire.ConsumeBytes(message)
			var err error
			if left, err = count(within, depth+1, left); err != nil {
				return 0, err
			}
		}
		message = message[length:]
	}
	return left, nil
}
