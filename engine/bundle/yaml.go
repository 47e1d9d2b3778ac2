package bundle

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"
)

// parseYAML reads the YAML documents of a chunk.
func parseYAML(c chunk, limits Limits, yield func(any, error) bool) {
	if int64(len(c.text)) > limits.DocumentBytes {
		yield(nil, errDocumentTooLarge)
		return
	}
	if elements(c.text) > limits.Elements {
		yield(nil, errTooManyElements)
		return
	}
	// The last line is given a line feed if it has none, as in kubectl: or else a block scalar at the end would lack
	// its own.
	text := io.Reader(bytes.NewReader(c.text))
	if !bytes.HasSuffix(c.text, []byte("\n")) {
		text = io.MultiReader(text, strings.NewReader("\n"))
	}
	decoder := yaml.NewDecoder(text)
	for first := true; ; first = false {
		value, err := yamlValue(decoder)
		switch {
		case errors.Is(err, io.EOF):
			if first { // Comments only: there is a document as far as numbering is concerned.
				yield(nil, nil)
			}
			return
		case err != nil:
			yield(nil, yamlError(c, err))
			return
		}
		if !yield(value, nil) {
			return
		}
	}
}

// yamlValue parses the next YAML document. The text is untrusted: should the parser panic, one document is lost and not
// the process.
func yamlValue(decoder *yaml.Decoder) (value any, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("yaml: the parser failed")
		}
	}()
	err = decoder.Decode(&value)
	return value, err
}

// yamlMessage takes a message of the YAML parser apart: the number of the line, if there is one, and the problem.
var yamlMessage = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// constantProblems are the beginnings of those problems whose text the parser takes from its own source only. All
// others may quote the document: "unknown anchor 'hunter2' referenced" is what it says about "password: *hunter2".
var constantProblems = []string{
	"block sequence entries are not allowed",
	"control characters are not allowed",
	"could not find expected ",
	"did not find ",
	"document contains excessive aliasing",
	"exceeded max depth",
	"found ",
	"incomplete UTF-",
	"invalid Unicode character",
	"invalid leading UTF-8 octet",
	"invalid trailing UTF-8 octet",
	"map merge requires map or sequence of maps as the value",
	"mapping keys are not allowed",
	"mapping values are not allowed",
	"the parser failed",
}

// quotingProblems are frequent problems whose text quotes the document, and what to say instead.
var quotingProblems = map[string]string{
	"unknown anchor ":  "an alias refers to an anchor that does not exist",
	"anchor ":          "an anchor contains itself",
	"cannot decode ":   "a value does not fit its tag",
	"invalid map key:": "a map or list is used as a key",
}

// yamlError describes an error of the YAML parser in words that hold nothing of the document.
func yamlError(c chunk, err error) error {
	parts := yamlMessage.FindStringSubmatch(err.Error())
	if parts == nil {
		return syntaxError("YAML", 0, "the document cannot be read")
	}
	line, _ := strconv.Atoi(parts[1])
	if line > 0 {
		line += c.line
	}
	for _, constant := range constantProblems {
		if strings.HasPrefix(parts[2], constant) {
			return syntaxError("YAML", line, parts[2])
		}
	}
	for quoting, replacement := range quotingProblems {
		if strings.HasPrefix(parts[2], quoting) {
			return syntaxError("YAML", line, replacement)
		}
	}
	return syntaxError("YAML", line, "the document cannot be read")
}
