package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Writers reports whether a write is by those who are judged. Nil means everybody.
type Writers func(Change) bool

// ByUserAgent are the writes of these programs: what a user agent begins with, up to the first slash or space.
func ByUserAgent(programs ...string) Writers {
	return func(c Change) bool {
		program := c.UserAgent
		if end := strings.IndexAny(program, "/ "); end >= 0 {
			program = program[:end]
		}
		return slices.Contains(programs, program)
	}
}

func (w Writers) judges(c Change) bool { return w == nil || w(c) }

// Verdict of a check.
type Verdict struct {
	// Check is what was looked for.
	Check string `json:"check"`
	// Judged is how many writes were looked at.
	Judged int `json:"judged"`
	// Findings are what should not be.
	Findings []Finding `json:"findings,omitempty"`
	// Incomplete are the targets whose history lost writes. Nothing found there proves nothing, and a finding may be
	// mistaken.
	Incomplete []string `json:"incomplete,omitempty"`
}

// Finding is something that should not have happened.
type Finding struct {
	Target string `json:"target"`
	Object string `json:"object"`
	// What happened, in words.
	What string `json:"what"`
	// Changes are the writes that show it, oldest first.
	Changes []Change `json:"changes"`
}

// String describes the finding: object, what happened, times and writers.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s", f.Target, f.Object, f.What)
	for _, c := range f.Changes {
		fmt.Fprintf(&b, "\n    %s %s %s of version %d, uid %s, %s -> %s, by %s",
			clock(c.Time), c.Verb, c.Resource, c.ResourceVersion, c.UID, digest(c.Before), digest(c.After), c.Writer())
	}
	return b.String()
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

func digest(d uint64) string {
	if d == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%08x", d>>32)
}

// Clean reports whether nothing was found, and nothing can have been missed.
func (v Verdict) Clean() bool { return len(v.Findings) == 0 && len(v.Incomplete) == 0 }

// Err is nil if the verdict is clean, and lists all findings otherwise.
func (v Verdict) Err() error {
	if v.Clean() {
		return nil
	}
	return errors.New(v.String())
}

const shown = 20

// String gives the verdict with its first findings.
func (v Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d findings in %d writes", v.Check, len(v.Findings), v.Judged)
	if len(v.Incomplete) > 0 {
		fmt.Fprintf(&b, "; not the whole story, for the histories of %d targets lost writes: %s",
			len(v.Incomplete), strings.Join(v.Incomplete[:min(len(v.Incomplete), shown)], ", "))
	}
	for i, finding := range v.Findings {
		if i == shown {
			fmt.Fprintf(&b, "\n  and %d more", len(v.Findings)-shown)
			break
		}
		fmt.Fprintf(&b, "\n  %s", finding)
	}
	return b.String()
}

// judge runs a check over histories. For each it makes a function that gets every write in turn, and returns what that
// write, which the check is to judge if judged is true, shows.
func judge(check string, histories []History, writers Writers, begin func(History) func(c Change, judged bool) (what string, shownBy []Change)) Verdict {
	verdict := Verdict{Check: check}
	for _, h := range histories {
		if h.Lost > 0 {
			verdict.Incomplete = append(verdict.Incomplete, h.Target)
		}
		see := begin(h)
		for _, c := range h.Changes {
			judged := writers.judges(c)
			what, shownBy := see(c, judged)
			if !judged || c.Time.Before(h.from) {
				continue
			}
			verdict.Judged++
			if what != "" {
				verdict.Findings = append(verdict.Findings, Finding{Target: h.Target, Object: c.Object(), What: what, Changes: shownBy})
			}
		}
	}
	return verdict
}

// Repeated finds writes that wrote what was there already: the server changed nothing, or nothing but managedFields.
// Two such writes are in order: the first write of a writer takes over an object that is as it should be, and an apply
// right after an update of the same writer takes ownership of what was updated.
func Repeated(writers Writers, histories ...History) Verdict {
	return judge("written although it was there already", histories, writers, func(History) func(Change, bool) (string, []Change) {
		latest := map[string]Change{} // by object and subresource, of judged writers
		return func(c Change, judged bool) (what string, shownBy []Change) {
			if !judged {
				return "", nil
			}
			id := c.Resource + " " + c.Object()
			before, wrote := latest[id]
			shownBy = []Change{c}
			if wrote {
				shownBy = []Change{before, c}
			}
			latest[id] = c
			switch {
			case !c.Changed:
				return "a write that changed nothing", shownBy
			case c.Before == c.After && c.Verb != VerbDelete && !c.subresource() && wrote && before.UID == c.UID &&
				!appliesUpdated(before, c):
				return "the same content was written again", shownBy
			}
			return "", nil
		}
	})
}

// appliesUpdated reports whether the second one of two writes to an object applies what the first one updated.
func appliesUpdated(before, c Change) bool {
	return before.Verb == "update" && c.Verb == VerbApply && before.Manager == c.Manager
}

// Flapping finds objects that judged writers changed, changed back and changed again within the window.
func Flapping(window time.Duration, writers Writers, histories ...History) Verdict {
	return judge("changed there and back", histories, writers, func(History) func(Change, bool) (string, []Change) {
		latest := map[string][]Change{} // of the object, by judged writers
		return func(c Change, judged bool) (string, []Change) {
			if !judged || c.Before == c.After {
				return "", nil
			}
			row := append(latest[c.Object()], c)
			row = row[max(0, len(row)-3):]
			latest[c.Object()] = row
			if len(row) == 3 && row[1].After == row[0].Before && row[2].After == row[0].After && c.Time.Sub(row[0].Time) <= window {
				return "changed, changed back and changed again", slices.Clone(row)
			}
			return "", nil
		}
	})
}

// CreatedTwice finds objects that judged writers deleted and created again. reason reports whether such a creation was
// asked for; nil means that none was.
func CreatedTwice(writers Writers, reason func(target string, creation Change) bool, histories ...History) Verdict {
	return judge("created twice", histories, writers, func(h History) func(Change, bool) (string, []Change) {
		deleted := map[string]Change{}
		return func(c Change, judged bool) (string, []Change) {
			object := c.Object()
			before, ok := deleted[object]
			switch {
			case c.deletes() && judged:
				deleted[object] = c
			case c.Before == 0 && c.After != 0:
				delete(deleted, object)
				if ok && (reason == nil || !reason(h.Target, c)) {
					return "created again after its deletion", []Change{before, c}
				}
			}
			return "", nil
		}
	})
}

// Deletes are the rules of WrongDeletes.
type Deletes struct {
	// Allowed reports whether the object may be deleted. Nil means yes.
	Allowed func(target string, c Change) bool
	// Owned reports of an object that the writer did not write in this history whether it belongs to the writer all the
	// same, because the server was started with it. Nil means that it is not.
	Owned func(target string, c Change) bool
}

// WrongDeletes finds deletes of objects that must not be deleted, that the judged writers never wrote, or that are not
// the ones they wrote but others of the same name.
func WrongDeletes(writers Writers, rules Deletes, histories ...History) Verdict {
	return judge("deleted wrongly", histories, writers, func(h History) func(Change, bool) (string, []Change) {
		written := map[string]Change{} // the latest write of judged writers
		return func(c Change, judged bool) (string, []Change) {
			if !judged {
				return "", nil
			}
			object := c.Object()
			before, wrote := written[object]
			if !c.deletes() {
				written[object] = c
				return "", nil
			}
			switch {
			case rules.Allowed != nil && !rules.Allowed(h.Target, c):
				return "deleted, which is not allowed", []Change{c}
			case wrote && before.UID != c.UID:
				return "deleted, although it is not the object that was written", []Change{before, c}
			case !wrote && (rules.Owned == nil || !rules.Owned(h.Target, c)):
				return "deleted, although it was never written", []Change{c}
			}
			return "", nil
		}
	})
}

// ByConnection distinguishes replicas by their connections, for TwoAtATime: replicas of one program have the same user
// agent. What the server wrote itself is not judged. A replica that connects again is another one, but one that does
// not write in turns with its former self, so nothing is found. The same replica is found if it does have two
// connections at a time: it speaks HTTP/1.1, or requests of its old connection were still under way when a GOAWAY moved
// it to a new one.
func ByConnection(writers Writers) func(Change) string {
	return func(c Change) string {
		if c.Connection == "" || !writers.judges(c) {
			return ""
		}
		program, _, _ := strings.Cut(c.UserAgent, " ")
		return program + " from " + c.Connection
	}
}

// TwoAtATime finds targets that two writers of one role wrote to at a time: one wrote, then another, then the first
// again, all within the window. replica names the writer of a change, such as a replica of a hub; an empty answer means
// that the write is not judged. A change of hands and back in a longer time than the window is none.
func TwoAtATime(window time.Duration, replica func(Change) string, histories ...History) Verdict {
	judged := func(c Change) bool { return replica(c) != "" }
	return judge("written by two at a time", histories, judged, func(History) func(Change, bool) (string, []Change) {
		latest := map[string]Change{}             // by replica
		objects := map[string]map[string]Change{} // by object and replica
		var previous Change
		return func(c Change, judged bool) (string, []Change) {
			if !judged {
				return "", nil
			}
			who := replica(c)
			before, wrote := latest[who]
			between := previous
			latest[who], previous = c, c
			onObject := objects[c.Object()]
			if onObject == nil {
				onObject = map[string]Change{}
				objects[c.Object()] = onObject
			}
			own, again := onObject[who]
			onObject[who] = c
			if !wrote || replica(between) == who || c.Time.Sub(before.Time) > window {
				return "", nil
			}
			for other, theirs := range onObject {
				if again && other != who && theirs.ResourceVersion > own.ResourceVersion {
					return fmt.Sprintf("written by %s and %s in turns", who, other), []Change{own, theirs, c}
				}
			}
			return fmt.Sprintf("written by %s, while %s wrote to the same target", who, replica(between)), []Change{before, between, c}
		}
	})
}
