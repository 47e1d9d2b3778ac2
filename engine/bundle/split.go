package bundle

import (
	"bytes"
	"iter"
)

// chunk is the text between two separator lines. It holds one document, or several: JSON objects may follow each other
// without a separator, and YAML has more ways to end a document than a line of three dashes.
type chunk struct {
	text []byte
	// line is the number of lines before the chunk.
	line int
}

// chunks splits a text at its separator lines: three dashes at the start of a line, followed by nothing but blanks or a
// comment. Empty text between two separators, or before the first one, is not a chunk.
func chunks(text []byte) iter.Seq[chunk] {
	return func(yield func(chunk) bool) {
		text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		current, lines := chunk{}, 0
		start := 0
		for at := 0; at < len(text); {
			end := at + lineLength(text[at:])
			if isSeparator(text[at:end]) {
				if current.text = text[start:at]; len(current.text) > 0 && !yield(current) {
					return
				}
				start = end
				current.line = lines + 1
			}
			lines++
			at = end
		}
		if current.text = text[start:]; len(current.text) > 0 {
			yield(current)
		}
	}
}

// lineLength returns the length of the first line of text, its end of line included.
func lineLength(text []byte) int {
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		return end + 1
	}
	return len(text)
}

// isSeparator reports whether a line stands between two documents.
func isSeparator(line []byte) bool {
	rest, found := bytes.CutPrefix(line, []byte("---"))
	if !found {
		return false
	}
	trimmed := bytes.TrimSpace(rest)
	return len(trimmed) == 0 || (trimmed[0] == '#' && len(rest) > 0 && isBlank(rest[0]))
}

// isBlank reports whether a byte is a blank in the sense of YAML.
func isBlank(b byte) bool {
	return b == ' ' || b == '\t'
}
