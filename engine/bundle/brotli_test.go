package bundle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// manyConfigMaps is a text that still has some size when it is compressed.
func manyConfigMaps(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "---\n%s  number: %q\n", configMap(fmt.Sprintf("name-%d", i)), fmt.Sprint(i*7919))
	}
	return text.String()
}

func TestBrotliValuesAreDecompressed(t *testing.T) {
	g := NewWithT(t)
	bundle := Decode([]Source{secret("data.yaml.br", compress(t, manyConfigMaps(50)), "plain.yaml", configMap("x"))}, Limits{})
	g.Expect(faults(bundle)).To(BeEmpty())
	g.Expect(bundle.Objects).To(HaveLen(51))
}

// BUG-1: each of these values kept Gardener's resource manager in an endless loop.
func TestX1_BadBrotliEndsWithAFault(t *testing.T) {
	whole := compress(t, manyConfigMaps(50))
	for name, test := range map[string]struct {
		value string
		err   error
	}{
		"cut at 95 %":       {whole[:len(whole)*95/100], errStreamEndsEarly},
		"cut at 75 %":       {whole[:len(whole)*75/100], errStreamEndsEarly},
		"cut at 50 %":       {whole[:len(whole)*50/100], errStreamEndsEarly},
		"nothing":           {"", errStreamEndsEarly},
		"trailing garbage":  {whole + "garbage", errStreamFollowed},
		"two streams":       {whole + whole, errStreamFollowed},
		"not compressed":    {configMap("a"), errStreamDamaged},
		"flipped first bit": {string(whole[0]^0xff) + whole[1:], nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bundle := Decode([]Source{secret("bad.br", test.value, "good.yaml", configMap("good"))}, Limits{})

			g.Expect(bundle.Complete()).To(BeFalse())
			g.Expect(bundle.Faults).To(HaveLen(1))
			if test.err != nil {
				g.Expect(errors.Is(bundle.Faults[0].Err, test.err)).To(BeTrue(), bundle.Faults[0].String())
			}
			g.Expect(bundle.Faults[0].Position).To(Equal(Position{"garden", "addons", "bad.br", 0, 0}))
			g.Expect(names(bundle)).To(Equal([]string{"good"}), "nothing of a bad stream counts, and the other keys are read")
		})
	}
}

func TestBrotliWithAnyFlippedByteEnds(t *testing.T) {
	g := NewWithT(t)
	whole := compress(t, manyConfigMaps(50))
	detected := 0
	for i := range whole {
		flipped := []byte(whole)
		flipped[i] ^= 0x55
		bundle := Decode([]Source{secret("data.br", string(flipped))}, Limits{})
		if !bundle.Complete() {
			detected++
		}
	}
	g.Expect(detected).To(BeNumerically(">", len(whole)/2), "Brotli has no checksum, but most damage does not go unnoticed")
}

func TestBrotliSuffixIsExact(t *testing.T) {
	g := NewWithT(t)
	bundle := Decode([]Source{secret("data.BR", configMap("a"), "br", configMap("b"), "c.br.yaml", configMap("c"))}, Limits{})
	g.Expect(faults(bundle)).To(BeEmpty())
	g.Expect(names(bundle)).To(Equal([]string{"b", "c", "a"}))
}
