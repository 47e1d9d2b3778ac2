package untrusted

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths of texts, in bytes.
const (
	// MaxName is the bound of names and namespaces in API servers.
	MaxName = 253
	// MaxToken is the bound of UIDs, versions, reasons and field managers.
	MaxToken = 128
	// MaxMessage is the bound of messages.
	MaxMessage = 1 << 10
)

// ellipsis ends a text that was cut.
const ellipsis = "..."

// Name bounds a name or a namespace.
func Name(s string) string { return Text(s, MaxName) }

// Token bounds a UID, a version, a reason or a field manager.
func Token(s string) string { return Text(s, MaxToken) }

// Message bounds a message.
func Message(s string) string { return Text(s, MaxMessage) }

// Text returns s as valid UTF-8 without control characters and of at most the given number of bytes, which must be
// larger than three. A text that is cut ends in "...". A text within the bounds is returned unchanged, without an
// allocation. A cut text is copied, so that it does not keep the whole text in memory.
func Text(s string, most int) string { return bound(s, most, false) }

// Lines is Text for messages of several lines.
func Lines(s string, most int) string { return bound(s, most, true) }

func bound(s string, most int, lines bool) string {
	if len(s) <= most && isPlain(s, lines) {
		return s
	}
	cut := len(s) > most
	if cut {
		end := most - len(ellipsis)
		for end > 0 && !utf8.RuneStart(s[end]) {
			end-- // no rune is cut
		}
		s = s[:end]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' && lines:
			return r
		case r == utf8.RuneError, r == '\n', r == '\t', r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if cut {
		return s + ellipsis
	}
	return strings.Clone(s)
}

// isPlain reports whether no character of a text has to be replaced.
func isPlain(s string, lines bool) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return !strings.ContainsFunc(s[i:], func(r rune) bool {
				return r == utf8.RuneError || (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) && (!lines || r != '\n')
			})
		}
		if (s[i] < ' ' || s[i] == 0x7f) && (!lines || s[i] != '\n') {
			return false
		}
	}
	return true
}
