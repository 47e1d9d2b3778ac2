package envelope

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// prefix begins whatever an API server encodes as Protocol Buffers, but for the events of a watch.
var prefix = []byte("k8s\x00")

// Is tells whether a text is such a message.
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

// ErrTooManyFields says that a message has more fields than anybody sends.
var ErrTooManyFields = errors.New("it has too many fields")

// Fields returns how many fields the object in a message has, and its metadata, which is the first of them: each may
// become an element of a list in memory. It is an error if there are more than most.
func Fields(text []byte, most int) (fields int, err error) {
	message, ok := bytes.CutPrefix(text, prefix)
	if !ok {
		return 0, errors.New("it is not what API servers send")
	}
	_, object, err := parts(message)
	if err == nil {
		fields, err = countFields(object, 0, most, true)
	}
	if err != nil {
		return 0, fmt.Errorf("its envelope: %w", err)
	}
	return fields, nil
}

// countFields adds the fields of a message to those that were counted before, and those of the messages that are its
// first fields.
func countFields(message []byte, before, most int, nested bool) (fields int, err error) {
	for fields = before; len(message) > 0; {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return 0, protowire.ParseError(length)
		}
		message = message[length:]
		if length = protowire.ConsumeFieldValue(number, kind, message); length < 0 {
			return 0, protowire.ParseError(length)
		}
		if fields++; fields > most {
			return 0, ErrTooManyFields
		}
		if nested && number == 1 && kind == protowire.BytesType {
			metadata, _ := protowire.ConsumeBytes(message)
			if fields, err = countFields(metadata, fields, most, false); err != nil {
				return 0, err
			}
		}
		message = message[length:]
	}
	return fields, nil
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

// parts returns the first two fields of a message, nil for one that it does not have. In everything that is wrapped around an object these are
// texts or other messages: in an event its type and a RawExtension, in that an Unknown, in that a TypeMeta and the object, and in a TypeMeta
// the version and the kind.
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
