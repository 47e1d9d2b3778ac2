package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// terminal opens a terminal of the kernel: what is written to the one end is read from the other.
func terminal(t *testing.T) (near *os.File, far *bufio.Reader) {
	t.Helper()
	g := NewWithT(t)
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = control.Close() })
	fd := int(control.Fd()) //nolint:gosec // a descriptor fits
	g.Expect(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)).To(Succeed())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	g.Expect(err).NotTo(HaveOccurred())
	near, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = near.Close() })
	return near, bufio.NewReader(control)
}

func TestTerminalHasColoursUnlessNoColorIsSet(t *testing.T) {
	near, _ := terminal(t)
	for name, test := range map[string]struct {
		term, noColor string
		coloured      bool
	}{
		"a usual one":               {"xterm", "", true},
		"one that knows no colours": {"dumb", "", false},
		"NO_COLOR":                  {"xterm", "1", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			t.Setenv("TERM", test.term)
			t.Setenv("NO_COLOR", test.noColor)
			if test.noColor == "" {
				g.Expect(os.Unsetenv("NO_COLOR")).To(Succeed()) // empty counts as set; Setenv restores it
			}
			env := NewEnv(genericiooptions.IOStreams{Out: near, ErrOut: near})
			shown := "x"
			if test.coloured {
				shown = "\x1b[31mx\x1b[0m"
			}
			g.Expect(env.Style(near).Bad("x")).To(Equal(shown))
		})
	}
}

func TestAWaitOnATerminalTakesOneLine(t *testing.T) {
	g := NewWithT(t)
	near, far := terminal(t)
	env := NewEnv(genericiooptions.IOStreams{ErrOut: near})
	looks := 0
	g.Expect(env.Await(context.Background(), time.Minute, func(context.Context) (bool, string, error) {
		looks++
		return looks == 3, fmt.Sprintf("look %d", looks), nil
	})).To(Succeed())
	env.Note("done")
	line, err := far.ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(line).To(MatchRegexp(`^\r\x1b\[K. look 1 \(\d+s\)\r\x1b\[K. look 2 \(\d+s\)\r\x1b\[Kdone\r\n$`))
}
