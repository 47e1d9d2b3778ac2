package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// word is a word or phrase that readers have to decode, with what to say instead. Single words are whole words.
type word struct{ pattern, instead string }

// unusual are those that pages must not have.
var unusual = append([]word{
	{`turn(s|ed|ing)?`, "become, switch, convert; one after the other"},
	{`crowds?`, "many targets at once"},
	{`calm|quiet`, "idle, at rest"},
	{`mend(s|ed|ing)?`, "repair, correct, resolve"},
	{`troubles?`, "problem, fault"},
	{`deaf`, "without watches"},
	{`patience`, "timeout, deadline"},
	{`asleep|sleeps?|slept|awake|wakes?|waking`, "hibernated, suspended; trigger"},
	{`steps? aside|stands? back|hands-off`, "stop working, write nothing"},
	{`bears?`, "have"},
	{`news`, "change, report"},
	{`strangers?`, "objects of others"},
	{`(is|are) said`, "reported"},
	{`as (it|they) should be`, "correct"},
	{`fights?|fighting`, "conflict with another writer"},
	{`(has|have) something to say`, "count"},
}, unusualInCode...)

// unusualInCode are those that comments and messages of the code must not have either. What is not here is in hundreds
// of comments, is the term there (a worker that sleeps), or the name of something.
var unusualInCode = []word{
	{`told`, "reported, notified, recorded, distinguished"},
	{`somebody|whoever`, "another client, a user who"},
	{`(is|are) no more`, "no longer exists"},
	{`any more`, "no longer, any longer"},
	{`meddles?|meddling`, "change"},
	{`storms?`, "many requests at once"},
	{`reckon(s|ed|ing)?`, "calculate, plan for"},
	{`(goes|go|went|going) on`, "continue"},
	{`(brought|brings?) back`, "correct, create again"},
	{`anew`, "again"},
	{`for good`, "permanently"},
	{`(gives?|gave) way`, "be displaced"},
	{`he|his|him`, "they, this user"},
}

// harmless are other meanings of those.
var harmless = regexp.MustCompile(`(?i)(any|(is|are) no) more than|there (is|are) no more`)

// notChecked are pages of which the words are not checked, and why.
var notChecked = []string{
	// Records of runs, as they were written.
	"docs/development/measurements",
}

// TestPagesUseTheWordsOfTheField keeps words out that were replaced once. Code and what programs print do not count.
func TestPagesUseTheWordsOfTheField(t *testing.T) {
	checked := 0
	for _, file := range pages(t) {
		if slices.ContainsFunc(notChecked, func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") }) {
			continue
		}
		checked++
		for _, found := range unusualIn(read(t, file), unusual) {
			t.Errorf("%s: %s", file, found)
		}
	}
	NewWithT(t).Expect(checked).To(BeNumerically(">", 70))
}

// TestCodeUsesTheWordsOfTheField is the same for comments, and for messages: strings with spaces that are not of tests.
func TestCodeUsesTheWordsOfTheField(t *testing.T) {
	checked := 0
	for _, folder := range []string{
		"addresses", "apis", "charts", "clustercache", "cmd", "controllers", "e2e", "engine", "fairqueue", "hack", "leader",
		"metrics", "semaphore", "untrusted", "version", "webhooks",
	} {
		for _, file := range files(t, folder, ".go") {
			if strings.HasSuffix(file, "/words_test.go") {
				continue
			}
			checked++
			text := strings.Join(comments(t, file), "\n")
			if !strings.HasSuffix(file, "_test.go") {
				for _, literal := range literals(t, file) {
					if strings.Contains(literal, " ") {
						text += ".\n" + literal
					}
				}
			}
			for _, found := range unusualIn(commentMark.ReplaceAllString(text, ""), unusualInCode) {
				t.Errorf("%s: %s", file, found)
			}
		}
	}
	NewWithT(t).Expect(checked).To(BeNumerically(">", 1000))
}

// commentMark begins a line of a comment.
var commentMark = regexp.MustCompile(`(?m)^//\s*`)

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
		"No client reads any more than this.":      false,
		"    kubectl get turn\n":                   false,
	} {
		NewWithT(t).Expect(unusualIn(text, unusual) != nil).To(Equal(found), text)
	}
}

var indented = regexp.MustCompile(`(?m)^ {4,}\S.*$`)

// unusualIn returns which words are found in a text, each with what to say instead.
func unusualIn(text string, words []word) []string {
	text = strings.Join(strings.Fields(indented.ReplaceAllString(withoutCode(text), "")), " ")
	text = harmless.ReplaceAllString(text, "")
	var all []string
	for _, word := range words {
		pattern := regexp.MustCompile(`(?i)(?:^|[^\w-])(?:` + strings.ReplaceAll(word.pattern, " ", `\s`) + `)\b`)
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			around := text[max(0, at[0]-30):min(len(text), at[1]+30)]
			all = append(all, strings.ToValidUTF8(around, "")+": say "+word.instead)
		}
	}
	return all
}
