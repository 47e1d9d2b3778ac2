package envelope

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// prefix begins whatever an API server encodes as Protocol Buffers, but for the events of a watch.
var prefix = []byte("k8s\x00")

// Is reports whether a text is such a message.
func Is(text []byte) bool { return bytes.HasPrefix(text, prefix) }

// Open decodes what is in a message: the metadata of an object, or a Status. It has to be of a kind; empty: of any. An
// error says that it is not, is broken, or has more than MaxElements elements: then nothing of it was decoded.
func Open(text []byte, kind string, into interface{ Unmarshal([]byte) error }) error {
	message, ok := bytes.CutPrefix(text, prefix)
	if !ok {
		return errors.New("it is not what API servers send")
	}
	typeMeta, raw, err := parts(message)
	if err == nil && kind != "" {
		var is []byte
		if _, is, err = parts(typeMeta); err == nil && string(is) != kind {
			return fmt.Errorf("it is of kind %.40q", is)
		}
	}
	if err != nil {
		return fmt.Errorf("its envelope: %w", err)
	}
	if err := Count(raw); err != nil {
		return err
	}
	return into.Unmarshal(raw)
}

// Event opens an event of a watch: of which type it is, and the message that its object is. That is part of the text.
func Event(text []byte) (kind string, object []byte, err error) {
	typ, extension, err := parts(text)
	if err == nil {
		object, _, err = parts(extension)
	}
	if err != nil {
		return "", nil, fmt.Errorf("its envelope: %w", err)
	}
	return string(typ), object, nil
}

// parts returns the first two fields of a message, nil for one that it does not have. In everything that is wrapped
// around an object these are texts or other messages: in an event its type and a RawExtension, in that an Unknown, in
// that a TypeMeta and the object, and in a TypeMeta the version and the kind.
func parts(message []byte) (first, second []byte, err error) {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return nil, nil, protowire.ParseError(length)
		}
		message = message[length:]
		if length = protowire.ConsumeFieldValue(number, kind, message); length < 0 {
			return nil, nil, protowire.ParseError(length)
		}
		if number <= 2 {
			if kind != protowire.BytesType {
				return nil, nil, fmt.Errorf("field %d is of wire type %d", number, kind)
			}
			value, _ := protowire.ConsumeBytes(message)
			if number == 1 {
				first = value
			} else {
				second = value
			}
		}
		message = message[length:]
	}
	return first, second, nil
}
