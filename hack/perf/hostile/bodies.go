package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// shape is a value that is small for who sends it, and large for who reads it.
type shape struct {
	name string
	// begin, unit and end are text: the unit is repeated.
	begin, unit, end string
	// closes is repeated as often as the unit was.
	closes string
}

// The shapes of values in JSON.
var (
	elements   = shape{name: "elements", begin: "[", unit: "{},", end: "{}]"}
	conditions = shape{
		name: "conditions", begin: "[", unit: `{"type":"A","status":"True","reason":"R","message":"m"},`, end: "{}]",
	}
	managedFields = shape{
		name: "managedFields", begin: "[", end: "{}]",
		unit: `{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}},`,
	}
	spaces = shape{name: "spaces", unit: " ", end: "[]"}
	depth  = shape{name: "depth", unit: "[", closes: "]"}
	text   = shape{name: "string", begin: `"`, unit: "a", end: `"`}
)

// shapes are all of them.
var shapes = []shape{elements, conditions, managedFields, spaces, depth, text}

// chunk is how much of a body is made, or compressed, at a time.
const chunk = 1 << 20

// body is a document with a value of some shape in it.
type body struct {
	prefix, suffix string
	shape          shape
	// size is about how many bytes the value has.
	size int
}

// parts calls f with the parts of the document in their order, and with how often each comes.
func (b body) parts(f func(text string, times int) error) error {
	unit := strings.Repeat(b.shape.unit, max(1, chunk/len(b.shape.unit)))
	times := max(1, b.size/len(unit))
	if b.size < len(unit) {
		unit = strings.Repeat(b.shape.unit, max(1, b.size/len(b.shape.unit)))
	}
	if b.shape.closes != "" {
		times = max(1, times/2)
	}
	err := f(b.prefix+b.shape.begin, 1)
	if err == nil {
		err = f(unit, times)
	}
	if err == nil && b.shape.closes != "" {
		err = f(strings.Repeat(b.shape.closes, len(unit)/len(b.shape.unit)), times)
	}
	if err == nil {
		err = f(b.shape.end+b.suffix, 1)
	}
	return err
}

// write writes the document as it is.
func (b body) write(w io.Writer) error {
	return b.parts(func(text string, times int) error {
		for range times {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeCompressed writes the document in the format of gzip. A part is compressed once however often it comes:
// members of gzip may follow each other.
func (b body) writeCompressed(w io.Writer) error {
	return b.parts(func(text string, times int) error {
		member := compressed([]byte(text))
		for range times {
			if _, err := w.Write(member); err != nil {
				return err
			}
		}
		return nil
	})
}

func compressed(content []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(content); err != nil {
		panic(fmt.Sprintf("compressing in memory: %v", err))
	}
	if err := w.Close(); err != nil {
		panic(fmt.Sprintf("compressing in memory: %v", err))
	}
	return out.Bytes()
}

// answer is how a body is sent.
type answer struct {
	status      int    // 200 if zero
	contentType string // JSON if empty
	gzip        bool
}

// send answers with the document. A client that leaves is no error.
func (a answer) send(w http.ResponseWriter, b body) {
	if a.contentType == "" {
		a.contentType = "application/json"
	}
	w.Header().Set("Content-Type", a.contentType)
	if a.gzip {
		w.Header().Set("Content-Encoding", "gzip")
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	w.WriteHeader(a.status)
	if a.gzip {
		_ = b.writeCompressed(w)
	} else {
		_ = b.write(w)
	}
}
