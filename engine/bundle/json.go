package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// parseJSON reads JSON values that follow each other. It returns false, having answered nothing, if the first of them
// is not JSON.
func parseJSON(c chunk, limits Limits, yield func(any, error) bool) bool {
	decoder := json.NewDecoder(bytes.NewReader(c.text))
	for first := true; ; first = false {
		var raw json.RawMessage
		switch err := decoder.Decode(&raw); {
		case err == nil:
		case first:
			return false
		case errors.Is(err, io.EOF):
			return true
		default:
			yield(nil, jsonError(c, err))
			return true
		}
		if !yield(jsonValue(raw, limits)) {
			return true
		}
	}
}

// jsonValue parses one JSON value. Whole numbers become int64, others float64.
func jsonValue(raw []byte, limits Limits) (value any, err error) {
	if int64(len(raw)) > limits.DocumentBytes {
		return nil, errDocumentTooLarge
	}
	if elements(raw) > limits.Elements {
		return nil, errTooManyElements
	}
	if err := utiljson.Unmarshal(raw, &value); err != nil {
		return nil, errors.New("not valid JSON: a number is out of range")
	}
	return value, nil
}

// jsonError describes an error of encoding/json in words that hold nothing of the document.
func jsonError(c chunk, err error) error {
	syntax, isSyntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return syntaxError("JSON", 0, "the document ends early")
	case isSyntax:
		before := c.text[:min(syntax.Offset, int64(len(c.text)))]
		return syntaxError("JSON", c.line+bytes.Count(before, []byte("\n"))+1, "unexpected character")
	default:
		return syntaxError("JSON", 0, "the document cannot be read")
	}
}
