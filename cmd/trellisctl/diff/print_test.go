package diff

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// printed is what is printed for people.
func printed(t *testing.T, difference Difference, full bool) string {
	t.Helper()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	d := &differ{env: cli.NewEnv(streams), full: full}
	NewWithT(t).Expect(d.difference(&difference, cli.Colours(false))).To(Succeed())
	return out.String()
}

func TestLongTextsAreShownWhereTheyDiffer(t *testing.T) {
	g := NewWithT(t)
	var before []string
	for i := range 20 {
		before = append(before, fmt.Sprintf("line %d", i+1))
	}
	after := append([]string{}, before...)
	after[9] = "another line\x1b[2J"
	field := Field{Path: "data[config.yaml]", From: strings.Join(before, "\n"), To: strings.Join(after, "\n")}
	g.Expect(printed(t, Difference{Object: "ConfigMap a/b", Action: Change, Fields: []Field{field}}, false)).To(Equal(
		"~ ConfigMap a/b\n    ~ data[config.yaml], from line 10:\n      - line 10\n      + another line^[[2J\n"))
}

func TestLargeDifferencesAreShownInPart(t *testing.T) {
	many := map[string]any{}
	var fields []Field
	var before, after []string
	for i := range 100 {
		name := fmt.Sprintf("field%03d", i)
		many[name] = "x"
		fields = append(fields, Field{Path: name, To: "x"})
		before, after = append(before, "b"+name), append(after, "a"+name)
	}
	long := strings.Repeat("é", 300)
	for name, test := range map[string]struct {
		difference Difference
		lines      int    // beside the first, with --full
		note       string // without
	}{
		"a new object":      {Difference{Action: Create, New: many}, 100, "    # 50 lines more; --full prints all\n"},
		"fields":            {Difference{Action: Change, Fields: fields}, 100, "    # 50 lines more; --full prints all\n"},
		"one line too many": {Difference{Action: Change, Fields: fields[:shownLines+1]}, 51, "    # 1 line more; --full prints all\n"},
		"a text of many lines": {
			Difference{Action: Change, Fields: []Field{{"a", strings.Join(before, "\n"), strings.Join(after, "\n")}}}, 201, "    # 151 lines more; --full prints all\n"},
		"a long value":     {Difference{Action: Change, Fields: []Field{{"a", "x", long}}}, 1, "    # 1 long line cut; --full prints all\n"},
		"a long new value": {Difference{Action: Create, New: map[string]any{"a": strings.Repeat("x", 600)}}, 1, "    # 1 long line cut; --full prints all\n"},
		"not much":         {Difference{Action: Change, Fields: fields[:shownLines]}, 50, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			whole, part := printed(t, test.difference, true), printed(t, test.difference, false)
			g.Expect(strings.Split(whole, "\n")).To(HaveLen(test.lines + 2))
			g.Expect(whole).NotTo(ContainSubstring("--full"))
			if test.note == "" {
				g.Expect(part).To(Equal(whole))
				return
			}
			g.Expect(part).To(HaveSuffix(test.note))
			shown := strings.TrimSuffix(part, test.note)
			g.Expect(strings.Split(shown, "\n")).To(HaveLen(min(test.lines, shownLines) + 2))
			g.Expect(whole).To(HavePrefix(strings.TrimSuffix(shown, "...\n")))
			g.Expect(utf8.ValidString(part)).To(BeTrue())
		})
	}
}
