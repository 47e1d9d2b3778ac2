package app

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
)

// A target can have net/http write any number of lines.
func TestLinesOfTheStandardLoggerAreBounded(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	s := standardLog{log: log, limit: rate.NewLimiter(rate.Every(time.Hour), 3)}
	for range 1000 {
		g.Expect(io.WriteString(s, "Transport: unhandled response frame\xff"+strings.Repeat("x", 10_000)+"\n")).To(
			BeNumerically(">", 10_000))
	}
	g.Expect(lines).To(HaveLen(3))
	g.Expect(lines[0]).To(ContainSubstring("unhandled response frame"))
	g.Expect(len(lines[0])).To(BeNumerically("<", 2*maxStandardLine))
}

func TestStandardLoggerQuotesNoAnswers(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	s := standardLog{log: log, limit: rate.NewLimiter(rate.Every(time.Hour), 1)}
	g.Expect(io.WriteString(s, `Unsolicited response received on idle HTTP channel starting with "hunter2"; err=<nil>`)).To(
		BeNumerically(">", 0))
	g.Expect(lines).To(ConsistOf(And(ContainSubstring("Unsolicited response"), Not(ContainSubstring("hunter2")))))
}
