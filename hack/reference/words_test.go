package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// unusual are words and phrases that readers have to decode, each with what to say instead. Those of single words are
// whole words.
var unusual = []struct{ pattern, instead string }{
	{`(is|are|was|were|be|been|being) told|told apart`, "reported, distinguished"},
	{`(is|are) no more`, "no longer exists"},
	{`any more`, "no longer, any longer"},
	{`turn(s|ed|ing)?`, "become, switch, convert; one after the other"},
	{`crowds?`, "many targets at once"},
	{`calm|quiet`, "idle, at rest"},
	{`mend(s|ed|ing)?`, "repair, correct, resolve"},
	{`meddles?|meddling`, "change"},
	{`troubles?`, "problem, fault"},
	{`deaf`, "without watches"},
	{`patience`, "timeout, deadline"},
	{`asleep|sleeps?|slept|awake|wakes?|waking`, "hibernated, suspended; trigger"},
	{`storms?`, "many requests at once"},
	{`reckon(s|ed|ing)?`, "calculate, plan for"},
	{`(goes|go|went|going) on`, "continue"},
	{`steps? aside|stands? back|hands-off`, "stop working, write nothing"},
	{`bears?`, "have"},
	{`news`, "change, report"},
	{`(brought|brings?) back`, "correct, create again"},
	{`strangers?`, "objects of others"},
	{`(is|are) said`, "reported"},
	{`anew`, "again"},
	{`for good`, "permanently"},
	{`(gives?|gave) way`, "be displaced"},
	{`he|his|him`, "they, this user"},
}

// notChecked are pages of which the words are not checked, and why.
var notChecked = []string{
	// Records of runs, as they were written.
	"docs/development/measurements",
	// Made from comments and texts in the code.
	"docs/reference/api.md", "docs/reference/trellisctl.md",
	// Not rewritten yet.
	"docs/explanation/webhooks.md", "docs/how-to/webhooks.md",
}

// TestPagesUseTheWordsOfTheField keeps words out that were replaced once. Code and what programs print do not count.
func TestPagesUseTheWordsOfTheField(t *testing.T) {
	checked := 0
	for _, file := range pages(t) {
		if slices.ContainsFunc(notChecked, func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") }) {
			continue
		}
		checked++
		for _, found := range unusualIn(read(t, file)) {
			t.Errorf("%s: %s", file, found)
		}
	}
	NewWithT(t).Expect(checked).To(BeNumerically(">", 70))
}

// TestUnusualWordsAreFound: over the end of a line, at the begin of a sentence, and not in code or inside of a word.
func TestUnusualWordsAreFound(t *testing.T) {
	for text, found := range map[string]bool{
		"The hub is\ntold of it.":                  true,
		"Goes on where it was.":                    true,
		"It is not needed any\n  more.":            true,
		"Each condition turns False.":              true,
		"The package `crowd` is internal.":         false,
		"```\nSomebody meddles with a target\n```": false,
		"It returns, and is annotated.":            false,
		"    kubectl get turn\n":                   false,
	} {
		NewWithT(t).Expect(unusualIn(text) != nil).To(Equal(found), text)
	}
}

var indented = regexp.MustCompile(`(?m)^ {4,}\S.*$`)

// unusualIn returns what is found in a page, each with what to say instead.
func unusualIn(page string) []string {
	text := strings.Join(strings.Fields(indented.ReplaceAllString(withoutCode(page), "")), " ")
	var all []string
	for _, word := range unusual {
		pattern := regexp.MustCompile(`(?i)(?:^|[^\w-])(?:` + strings.ReplaceAll(word.pattern, " ", `\s`) + `)\b`)
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			around := text[max(0, at[0]-30):min(len(text), at[1]+30)]
			all = append(all, strings.ToValidUTF8(around, "")+": say "+word.instead)
		}
	}
	return all
}
