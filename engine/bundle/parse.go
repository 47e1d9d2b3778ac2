package bundle

import (
	"bytes"
	"fmt"
	"iter"
)

// parse yields the documents of a chunk one by one: the parsed value, nil for an empty document, or why the document
// could not be parsed. A syntax error ends it, because it is not known where the next document would start. A chunk
// yields at least once.
//
// A chunk that starts with a brace is read as JSON. If its first document is not JSON, it may still be YAML, whose maps
// can be written with braces too.
func parse(c chunk, limits Limits) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		if bytes.HasPrefix(bytes.TrimLeft(c.text, " \t\r\n"), []byte("{")) && parseJSON(c, limits, yield) {
			return
		}
		parseYAML(c, limits, yield)
	}
}

// syntaxError reports a syntax error in a line of the key. The first line is 1, and 0 means unknown.
func syntaxError(language string, line int, problem string) error {
	if line == 0 {
		return fmt.Errorf("not valid %s: %s", language, problem)
	}
	return fmt.Errorf("not valid %s: line %d: %s", language, line, problem)
}

// elements returns how many elements of maps and lists a text may have at most: every one of them takes an indicator,
// in YAML as in JSON. Indicators in comments and in values count, too, since only a parser could distinguish them.
func elements(text []byte) (n int) {
	for i, c := range text {
		switch c {
		case ',', ':', '[', '{', '?':
			n++
		case '-':
			if i+1 == len(text) || text[i+1] <= ' ' {
				n++
			}
		}
	}
	return n
}
