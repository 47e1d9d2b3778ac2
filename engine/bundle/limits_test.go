package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
)

// laughs is the "billion laughs" document: nine levels of lists that each refer ten times to the level below.
func laughs(leaf string) string {
	var text strings.Builder
	text.WriteString("l0: &l0 " + leaf + "\n")
	for level := 1; level < 10; level++ {
		below := fmt.Sprintf("*l%d", level-1)
		fmt.Fprintf(&text, "l%d: &l%d [%s]\n", level, level, strings.Join(strings.Split(strings.Repeat(below+" ", 10), " ")[:10], ","))
	}
	return text.String()
}

func TestW20_BombsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		source Source
		err    error
		text   string
	}{
		"billion laughs": {
			source: secret("data.yaml", laughs("lol")),
			text:   "excessive aliasing",
		},
		"one long text with many aliases": {
			source: secret("data.yaml", "a: &a "+strings.Repeat("x", 1<<20)+"\nb: ["+strings.Repeat("*a,", 1<<16)+"]"),
			err:    errDocumentTooLarge,
		},
		"deep YAML lists": {
			source: secret("data.yaml", "a: "+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)),
			err:    errTooDeep,
		},
		"very deep YAML lists": {
			source: secret("data.yaml", "a: "+strings.Repeat("[", 1<<17)),
			text:   "exceeded max depth",
		},
		"deep YAML maps": {
			source: secret("data.yaml", strings.Repeat("? ", 1<<16)),
			text:   "exceeded max depth",
		},
		"deep JSON": {
			source: secret("data.yaml", `{"a":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+"}"),
			err:    errTooDeep,
		},
		"very deep JSON": {
			source: secret("data.yaml", strings.Repeat(`{"a":`, 1<<16)),
			text:   "exceeded max depth",
		},
		"lists that are deeper than any parser need look": {
			source: secret("data.yaml", "a: "+strings.Repeat("[", 1<<20)),
			err:    errTooManyElements,
		},
		"a stream that decompresses to very much": {
			source: secret("data.br", blanks),
			err:    ErrTooManyBytes,
		},
		"a large document": {
			source: secret("data.yaml", "a: "+strings.Repeat("x", 4<<20)),
			err:    errDocumentTooLarge,
		},
		"a large JSON document": {
			source: secret("data.yaml", `{"a":"`+strings.Repeat("x", 4<<20)+`"}`),
			err:    errDocumentTooLarge,
		},
		"too many documents": {
			source: secret("data.yaml", strings.Repeat("{}\n---\n", 10_001)),
			err:    errTooManyDocuments,
		},
		"too many empty documents": {
			source: secret("data.yaml", strings.Repeat("#\n---\n", 10_001)),
			err:    errTooManyDocuments,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			start := time.Now()
			bundle := Decode([]Source{test.source}, Limits{})
			t.Log(time.Since(start).Round(time.Millisecond), bundle.FaultMessage())

			g.Expect(bundle.Faults).To(HaveLen(1))
			if test.err != nil {
				g.Expect(errors.Is(bundle.Faults[0].Err, test.err)).To(BeTrue(), bundle.Faults[0].String())
			}
			g.Expect(bundle.Faults[0].String()).To(ContainSubstring(test.text))
		})
	}
}

func TestManyBombsAreGivenUp(t *testing.T) {
	g := NewWithT(t)
	start := time.Now()
	bundle := decodeText(strings.Repeat(laughs("lol")+"---\n", 1000))
	t.Log(time.Since(start).Round(time.Millisecond))
	g.Expect(bundle.Faults).To(HaveLen(101))
	g.Expect(errors.Is(bundle.Faults[100].Err, errTooManyFaults)).To(BeTrue())
}

func TestLimitsCountOverAllSecrets(t *testing.T) {
	g := NewWithT(t)
	sources := []Source{secret("a", configMap("a")), secret("b", configMap("b")), secret("c", configMap("c"))}

	g.Expect(names(Decode(sources, Limits{Documents: 3}))).To(HaveLen(3))
	bundle := Decode(sources, Limits{Documents: 2})
	g.Expect(names(bundle)).To(Equal([]string{"a", "b"}))
	g.Expect(bundle.FaultMessage()).To(Equal("document 1 of key c in Secret garden/addons: the ManagedResource has too many documents"))

	size := int64(len(configMap("a")))
	g.Expect(Decode(sources, Limits{Bytes: 3 * size}).Complete()).To(BeTrue())
	bundle = Decode(sources, Limits{Bytes: 3*size - 1})
	g.Expect(names(bundle)).To(Equal([]string{"a", "b"}))
	g.Expect(bundle.FaultMessage()).To(Equal("key c in Secret garden/addons: the ManagedResource has too much data"))
}

func TestTinyMapsCountAsTheMemoryTheyTake(t *testing.T) {
	g := NewWithT(t)
	document := `{"a":[` + strings.Repeat(`{"a":1},`, 30_000) + "{}]}\n"
	bundle := Decode([]Source{secret("data.yaml", strings.Repeat(document, 5))}, Limits{Memory: 25 << 20})
	g.Expect(bundle.Objects).To(HaveLen(2), "%d bytes of text take about 10 MiB", len(document))
	g.Expect(bundle.Faults).To(HaveLen(1))
	g.Expect(errors.Is(bundle.Faults[0].Err, ErrTooManyBytes)).To(BeTrue(), bundle.Faults[0].String())
}

// The estimate need not be right, but must not be so wrong that the bounds of bundle and cache mean nothing.
func TestMemoryIsEstimatedWithinAFactorOfTwo(t *testing.T) {
	for name, text := range map[string]string{
		"ordinary":        manyConfigMaps(2000),
		"tiny maps":       `{"a":[` + strings.Repeat(`{"a":1},`, 30_000) + "{}]}\n",
		"long text":       "a: " + strings.Repeat("x", 2<<20),
		"many short ones": "a: [" + strings.Repeat("text,", 100_000) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			source := []Source{secret("data.yaml", text)}
			before := heap()
			decoded, err := decode(t.Context(), Hash{}, source, Limits{}, nil, nil)
			g.Expect(err).NotTo(HaveOccurred())
			for _, o := range decoded.objects { // as if they were sent
				_, err := o.text.Append(nil, o.object.Object)
				g.Expect(err).NotTo(HaveOccurred())
			}
			used := heap() - before
			t.Logf("used %d, estimated %d", used, decoded.size)
			g.Expect(decoded.faults).To(BeEmpty())
			g.Expect(decoded.size).To(And(BeNumerically(">", used/2), BeNumerically("<", used*2)))
			runtime.KeepAlive(source)
		})
	}
}

// heap returns how much memory is in use.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestOrdinaryNestingIsFine(t *testing.T) {
	g := NewWithT(t)
	g.Expect(decodeText("a: " + strings.Repeat("[", 255) + strings.Repeat("]", 255)).Complete()).To(BeTrue())
	g.Expect(decodeText("a: " + strings.Repeat("[", 256) + strings.Repeat("]", 256)).Complete()).To(BeFalse())
}

// blanks is a Brotli stream of a few hundred bytes that decompresses to 128 MiB of blanks.
var blanks = func() string {
	var buffer bytes.Buffer
	writer := brotli.NewWriterLevel(&buffer, 1)
	mebibyte := bytes.Repeat([]byte(" "), 1<<20)
	for range 128 {
		_, _ = writer.Write(mebibyte)
	}
	_ = writer.Close()
	return buffer.String()
}()
