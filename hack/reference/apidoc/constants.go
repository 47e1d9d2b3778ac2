package apidoc

import (
	"bytes"
	"fmt"
	"strings"
)

// Keys returns the page of annotations, labels and finalizers: constants that look like a key, in their order, each followed by
// its values. A value is a constant whose name begins with that of its key: ModeIgnore is one of ModeAnnotation.
func Keys(intro string, groups ...Group) []byte {
	page := bytes.NewBufferString("# Annotations, labels and finalizers\n\n" + generated + "\n" + intro)
	for _, g := range groups {
		var keys, others []constant
		for _, block := range g.Package.blocks() {
			for _, c := range g.Package.constantsOf(block) {
				if strings.Contains(c.value, "/") {
					keys = append(keys, c)
				} else {
					others = append(others, c)
				}
			}
		}
		fmt.Fprintf(page, "\n## %s\n\n%s\n\n| key | effect |\n|---|---|\n", g.Name, g.About)
		for _, key := range keys {
			fmt.Fprintf(page, "| `%s` | %s |\n", key.value, g.Package.cell(key.name, key.comment))
			noun, isKey := strings.CutSuffix(key.name, "Annotation")
			if !isKey {
				noun, isKey = strings.CutSuffix(key.name, "Label")
			}
			for _, value := range others {
				if isKey && strings.HasPrefix(value.name, noun) {
					fmt.Fprintf(page, "| value `%s` | %s |\n", value.value, g.Package.cell(value.name, value.comment))
				}
			}
		}
	}
	return page.Bytes()
}

// Conditions returns the page of conditions and their reasons: constants whose names begin with Condition or Reason, one table
// for each block of them, under what the comment of the block says.
func Conditions(intro string, groups ...Group) []byte {
	page := bytes.NewBufferString("# Conditions and reasons\n\n" + generated + "\n" + intro)
	for _, g := range groups {
		fmt.Fprintf(page, "\n## %s\n\n%s\n", g.Name, g.About)
		for _, block := range g.Package.blocks() {
			header := ""
			for _, c := range g.Package.constantsOf(block) {
				column := "reason"
				if strings.HasPrefix(c.name, "Condition") {
					column = "condition"
				} else if !strings.HasPrefix(c.name, "Reason") {
					continue
				}
				if c.comment == "" { // a value of a condition, which needs no words
					continue
				}
				if header == "" {
					header = fmt.Sprintf("\n%s\n\n| %s | meaning |\n|---|---|\n", g.Package.values(g.Package.prose(block.Doc)), column)
					page.WriteString(header)
				}
				fmt.Fprintf(page, "| `%s` | %s |\n", c.value, g.Package.cell(c.name, c.comment))
			}
		}
	}
	return page.Bytes()
}
