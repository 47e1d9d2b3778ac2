package untrusted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	. "github.com/onsi/gomega"
)

func TestDocumentsOutOfBounds(t *testing.T) {
	bounds := Bounds{Bytes: 1000, Elements: 10, Depth: 3}
	for name, c := range map[string]struct {
		document string
		what     string // empty: it is within bounds
	}{
		"empty":                     {"", ""},
		"as many elements":          {"[" + strings.Repeat("1,", 9) + "1]", ""},
		"one element more":          {"[" + strings.Repeat("1,", 10) + "1]", "elements"},
		"empty objects":             {"[" + strings.Repeat("{},", 9) + "{}]", "elements"},
		"as deep":                   {`{"a":{"b":[]}}`, ""},
		"one level more":            {`{"a":{"b":[{}]}}`, "levels of nesting"},
		"deep, and back":            {`[[[[]]]]`, "levels of nesting"},
		"brackets in a string":      {`{"a":"[[[[[[,,,,,,,,,,,,,,,"}`, ""},
		"an escaped quote":          {`{"a":"\"[[[[[[,,,,,,,,,,,,,,,"}`, ""},
		"an escaped backslash":      {`{"a":"\\","b":[[[]]]}`, "levels of nesting"},
		"as many bytes":             {strings.Repeat(" ", 1000), ""},
		"spaces without end":        {strings.Repeat(" ", 1001), "bytes"},
		"a string without end":      {`"` + strings.Repeat("a", 1000), "bytes"},
		"brackets that never close": {"[[[[", "levels of nesting"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for how, err := range map[string]error{
				"at once": Check([]byte(c.document), bounds),
				"read":    read(NewReader(strings.NewReader(c.document), bounds)),
				"by byte": read(NewReader(iotest.OneByteReader(strings.NewReader(c.document)), bounds)),
			} {
				var exceeded *ExceededError
				if c.what == "" {
					g.Expect(err).NotTo(HaveOccurred(), how)
					continue
				}
				g.Expect(errors.As(err, &exceeded)).To(BeTrue(), "%s: %v", how, err)
				g.Expect(exceeded.What).To(Equal(c.what), how)
				g.Expect(err).To(MatchError(ErrExceeded), how)
			}
		})
	}
}

func TestItemsOfLists(t *testing.T) {
	list := func(items int) []byte {
		all := strings.Repeat(`{"metadata":{"labels":{"a":"b"}}},`, items)
		return []byte(`{"metadata":{"a":1},"items":[` + strings.TrimSuffix(all, ",") + `]}`)
	}
	g := NewWithT(t)
	g.Expect(Check(list(10), Bounds{Items: 10})).To(Succeed())
	g.Expect(Check(list(11), Bounds{Items: 10})).To(MatchError(&ExceededError{What: "items", Most: 10}))
}

func TestStreamsAreBoundedByDocument(t *testing.T) {
	bounds := Bounds{Bytes: 100, Elements: 10, Depth: 3, Stream: true}
	document := `{"a":["b}",1,{}],"c":"]"}` + "\n"
	long := `{"a":"` + strings.Repeat("a", 100) + `"}`
	for name, c := range map[string]struct {
		stream string
		what   string
	}{
		"many documents":     {strings.Repeat(document, 1000), ""},
		"a document longer":  {strings.Repeat(document, 5) + long + document, "bytes"},
		"spaces without end": {document + strings.Repeat(" ", 1000), "bytes"},
		"elements":           {strings.Repeat(document, 5) + `[1,2,3,4,5,6,7,8,9,10,11]` + document, "elements"},
		"depth":              {document + `[[[[]]]]` + document, "levels of nesting"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for how, r := range map[string]io.Reader{
				"at once": strings.NewReader(c.stream), "by byte": iotest.OneByteReader(strings.NewReader(c.stream)),
			} {
				err := read(NewReader(r, bounds))
				var exceeded *ExceededError
				g.Expect(errors.As(err, &exceeded)).To(Equal(c.what != ""), how)
				if exceeded != nil {
					g.Expect(exceeded.What).To(Equal(c.what), how)
				}
			}
		})
	}
}

func read(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func TestErrorsOfTheReaderStay(t *testing.T) {
	g := NewWithT(t)
	r := NewReader(strings.NewReader("[1,2]"), Bounds{Elements: 1})
	for range 2 {
		n, err := r.Read(make([]byte, 10))
		g.Expect(n).To(BeZero(), "what is too much is not handed on")
		g.Expect(err).To(MatchError(ErrExceeded))
	}
	g.Expect(read(NewReader(iotest.ErrReader(io.ErrClosedPipe), Bounds{}))).To(MatchError(io.ErrClosedPipe))
	g.Expect(Check(bytes.Repeat([]byte("["), 1000), Bounds{})).To(Succeed(), "no bounds")
}

func TestCount(t *testing.T) {
	for document, want := range map[string][2]int{
		"":                           {0, 0},
		"1":                          {0, 0},
		`{"a":[1,2,{"b":"[,\"[,"}]}`: {5, 3},
		"[[],[],[]]":                 {6, 2},
	} {
		elements, depth := Count([]byte(document))
		NewWithT(t).Expect([2]int{elements, depth}).To(Equal(want), document)
	}
}

func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
	}{
		"plain":                  {"kubectl-edit", "kubectl-edit"},
		"as long":                {strings.Repeat("a", 16), strings.Repeat("a", 16)},
		"longer":                 {strings.Repeat("a", 17), strings.Repeat("a", 13) + "..."},
		"other scripts":          {"größer", "größer"},
		"cut in a rune":          {strings.Repeat("a", 12) + "ößer", strings.Repeat("a", 12) + "..."},
		"cut after a rune":       {strings.Repeat("a", 11) + "ößer", strings.Repeat("a", 11) + "ö..."},
		"no UTF-8":               {"a\xff\xfeb", "a  b"},
		"no UTF-8, and longer":   {strings.Repeat("\xff", 100), "..."},
		"lines":                  {"a\nb\r\n", "a b"},
		"control characters":     {"a\x00\x1b[31mb", "a[31mb"},
		"right-to-left override": {"a\u202eb", "ab"},
		"empty":                  {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Text(c.text, 16)).To(Equal(c.want))
		})
	}
}

func TestLines(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
	}{
		"plain":              {"a\nb", "a\nb"},
		"plain, not ASCII":   {"ö\nb", "ö\nb"},
		"control characters": {"a\r\nb\x1b\u202e", "a \nb"},
		"longer":             {"a\n" + strings.Repeat("b", 15), "a\n" + strings.Repeat("b", 11) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Lines(c.text, 16)).To(Equal(c.want))
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add("größer\xff\n", 8)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 4 + (most&0xff+0x100)%0x100
		got := Text(s, most)
		tooLong := len(got) > max(most, len(s)) || len(s) > most && len(got) > most
		if tooLong || !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\n\r") {
			t.Fatalf("%q of %q", got, s)
		}
		if again := Text(got, most); len(got) <= most && again != got {
			t.Fatalf("%q, then %q", got, again)
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"a":["b\\"",1]}`), uint8(3))
	f.Fuzz(func(t *testing.T, document []byte, piece uint8) {
		bounds := Bounds{Bytes: 100, Elements: 5, Depth: 2}
		whole := Check(document, bounds)
		c := counter{bounds: bounds}
		var err error
		for rest := document; len(rest) > 0 && err == nil; {
			n := min(int(piece%7)+1, len(rest))
			err = c.count(rest[:n])
			rest = rest[n:]
		}
		if (whole == nil) != (err == nil) {
			t.Fatalf("%v at once, %v in pieces", whole, err)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	members := strings.Repeat(`"name":"some value of usual length","list":[1,2,{"a":true}],`, 2000)
	document := []byte("{" + members + `"z":0}`)
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(document, Bounds{Bytes: 1 << 20, Elements: 1 << 20, Depth: 100}); err != nil {
			b.Fatal(fmt.Errorf("unexpected: %w", err))
		}
	}
}
