package h2

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
)

func TestWhatIsNotReadYet(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := NewWithT(t)
			random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same each time
			var u unread
			var want, got bytes.Buffer
			came := 0
			for range 200 {
				if random.IntN(3) > 0 {
					data := make([]byte, 1+random.IntN([]int{10, smallPiece, readFrame, 3 * readFrame}[random.IntN(4)]))
					for i := range data {
						data[i] = byte(random.IntN(256))
					}
					want.Write(data)
					u.add(data)
					came += len(data)
					clear(data) // the caller has it back
				} else {
					p := make([]byte, random.IntN(4*readFrame))
					got.Write(p[:u.read(p)])
				}
				g.Expect(u.size()).To(Equal(came - got.Len()))
				g.Expect(u.empty()).To(Equal(came == got.Len()))
			}
			rest := make([]byte, u.size())
			g.Expect(u.read(rest)).To(Equal(len(rest)))
			got.Write(rest)
			g.Expect(bytes.Equal(got.Bytes(), want.Bytes())).To(BeTrue())
			g.Expect(u).To(BeZero(), "nothing is kept")
		})
	}
}

func TestWhatNobodyReadsIsDropped(t *testing.T) {
	g := NewWithT(t)
	var u unread
	u.add(make([]byte, 5*readFrame))
	u.read(make([]byte, 10))
	u.drop()
	g.Expect(u).To(BeZero())
}

// A list that comes faster than it is read must not leave copies of itself to the collector.
func BenchmarkUnread(b *testing.B) {
	frame, p := make([]byte, readFrame), make([]byte, 32<<10)
	b.ReportAllocs()
	b.SetBytes(streamWindow)
	for b.Loop() {
		var u unread
		for range streamWindow / len(frame) {
			u.add(frame)
		}
		for !u.empty() {
			u.read(p)
		}
	}
}
