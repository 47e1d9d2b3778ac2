package app

import (
	stdlog "log"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/trellis-hub/trellis/untrusted"
)

// maxStandardLine bounds the bytes that are shown of a line of the standard logger.
const maxStandardLine = 512

// standardLog takes what libraries say to the standard logger. net/http reports each HTTP/2 frame there that it does
// not know, and a hostile target can send any number of them, so it is a line a second at most.
type standardLog struct {
	log   logr.Logger
	limit *rate.Limiter
}

func redirectStandardLog(log logr.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(standardLog{log: log.WithName("library"), limit: rate.NewLimiter(rate.Every(time.Second), 10)})
}

// Write implements io.Writer.
func (s standardLog) Write(line []byte) (int, error) {
	if s.limit.Allow() {
		text := strings.TrimSpace(string(line[:min(len(line), maxStandardLine)]))
		text, _, _ = strings.Cut(text, " starting with ") // net/http quotes what a server sent without being asked
		s.log.Info(untrusted.Text(text, maxStandardLine))
	}
	return len(line), nil
}
