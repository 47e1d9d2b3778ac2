package ensure

import (
	"slices"

	"github.com/trellis-hub/trellis/webhooks/controlplane/systemd"
)

// Option returns options of a unit with one. Options may repeat in a unit, so one with another value stays.
func Option(options []systemd.Option, option systemd.Option) []systemd.Option {
	if slices.Contains(options, option) {
		return options
	}
	return append(slices.Clone(options), option)
}

// NoOption returns options of a unit without one of the same value.
func NoOption(options []systemd.Option, option systemd.Option) []systemd.Option {
	if !slices.Contains(options, option) {
		return options
	}
	return slices.DeleteFunc(slices.Clone(options), func(o systemd.Option) bool { return o == option })
}

// lineEnd is between the flags of a command line, so that a person can read them.
const lineEnd = " \\\n    "

// CommandLine returns options of a unit with its command line changed: ExecStart of the section Service. The function
// is given the words of it, the command first. Nothing happens if it leaves them as they are, or if there is no such
// option.
func CommandLine(options []systemd.Option, change func(words []string) []string) []systemd.Option {
	at := slices.IndexFunc(options,
		func(o systemd.Option) bool { return o.Section == "Service" && o.Name == "ExecStart" })
	if at < 0 {
		return options
	}
	before := Words(options[at].Value)
	after := change(slices.Clone(before))
	if slices.Equal(before, after) {
		return options
	}
	options = slices.Clone(options)
	options[at].Value = Line(after, 1, lineEnd)
	return options
}
