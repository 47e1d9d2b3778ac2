package ensure

import (
	"slices"
	"strings"
)

// Flag returns arguments with a flag, given as the text that it begins with ("--cloud-provider=") and what follows. All
// arguments with this beginning get the value; if there are none, one is added at the end.
func Flag(args []string, prefix, value string) []string {
	return rewrite(args, prefix, func(string) string { return value }, true)
}

// NoFlag returns arguments without those that begin with a text.
func NoFlag(args []string, prefix string) []string {
	is := func(arg string) bool { return strings.HasPrefix(arg, prefix) }
	if !slices.ContainsFunc(args, is) {
		return args
	}
	return slices.DeleteFunc(slices.Clone(args), is)
}

// InFlag returns arguments with a value in a flag that is a list, such as "--enable-admission-plugins=" with the
// separator ",". If there is no such flag, one with this value is added.
func InFlag(args []string, prefix, value, separator string) []string {
	return rewrite(args, prefix, func(list string) string {
		values := split(list, separator)
		if slices.Contains(values, value) {
			return list
		}
		return strings.Join(append(values, value), separator)
	}, true)
}

// NotInFlag returns arguments without a value in a flag that is a list. The flag stays, also with an empty list:
// without it, the default of the command would count, which may have the value.
func NotInFlag(args []string, prefix, value, separator string) []string {
	return rewrite(args, prefix, func(list string) string {
		values := split(list, separator)
		if !slices.Contains(values, value) {
			return list
		}
		return strings.Join(slices.DeleteFunc(values, func(v string) bool { return v == value }), separator)
	}, false)
}

func split(list, separator string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, separator)
}

// rewrite changes what follows the prefix in all arguments that have it. If none has, and add is true, one is added for
// an empty value.
func rewrite(args []string, prefix string, change func(string) string, add bool) []string {
	found, copied := false, false
	for i, arg := range args {
		value, is := strings.CutPrefix(arg, prefix)
		if !is {
			continue
		}
		found = true
		if changed := prefix + change(value); changed != arg {
			if !copied {
				args, copied = slices.Clone(args), true
			}
			args[i] = changed
		}
	}
	if !found && add {
		return append(slices.Clone(args), prefix+change(""))
	}
	return args
}

// Words splits a command line into its words: at blanks, line ends and backslashes.
func Words(line string) []string {
	return strings.FieldsFunc(line,
		func(r rune) bool { return r == '\\' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

// Line joins words to a command line: the first ones, as many as leading, with blanks, what follows with the separator.
func Line(words []string, leading int, separator string) string {
	leading = min(max(leading, 0), len(words))
	first, rest := strings.Join(words[:leading], " "), strings.Join(words[leading:], separator)
	if first == "" || rest == "" {
		return first + rest
	}
	return first + separator + rest
}
