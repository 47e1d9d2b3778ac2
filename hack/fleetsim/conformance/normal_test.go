package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// normal replaces what must differ between two servers. One is used for all answers of a server in a row, so that it
// recognises what it has seen before.
type normal struct {
	script   string // all bodies and paths of the row: an address or a port that is in there was not chosen by the server
	uids     map[string]string
	versions map[string]string // of objects
	latest   uint64            // of the versions
	lists    map[string]string // versions of lists and bookmarks
}

func newNormal(r row) *normal {
	var script strings.Builder
	for _, s := range r.steps {
		script.WriteString(s.path + "\n" + s.body + "\n")
	}
	return &normal{script: script.String(), uids: map[string]string{}, versions: map[string]string{}, lists: map[string]string{}}
}

// comparedHeaders are those that clients act upon.
var comparedHeaders = []string{"Content-Type", "Warning", "Retry-After", "Location", "Allow"}

// text is what is compared of an answer.
func (n *normal) text(a answer) string {
	doc := map[string]any{"code": a.code}
	for _, name := range comparedHeaders {
		if values := a.header.Values(name); len(values) > 0 {
			doc["header "+name] = n.value("", anys(values))
		}
	}
	if tag := a.header.Get("ETag"); tag != "" {
		doc["header ETag"] = entityTag.ReplaceAllString(tag, "<hash>")
	}
	if a.problem != nil {
		doc["problem"] = a.problem.Error()
	}
	switch body := a.body.(type) {
	case nil:
	case string:
		doc["body"] = n.message(body)
	default:
		doc["body"] = n.value("", body)
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(doc); err != nil {
		return err.Error()
	}
	return out.String()
}

// entityTag is what kube-apiserver makes of a hash.
var entityTag = regexp.MustCompile(`[0-9A-F]{128}`)

func anys(values []string) (list []any) {
	for _, v := range values {
		list = append(list, v)
	}
	return list
}

// value replaces in a document, in the order of its keys. key is that under which it stands.
func (n *normal) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return n.object(v)
	case []any:
		switch key {
		case "managedFields":
			return n.managed(v)
		case "causes":
			v = sortConflicts(v)
		}
		list := make([]any, len(v))
		for i := range v {
			list[i] = n.value(key, v[i])
		}
		return list
	case json.Number:
		if port := key == "nodePort" || key == "healthCheckNodePort"; port && !strings.Contains(n.script, v.String()) {
			return "<port>"
		}
		return v
	case string:
		return n.leaf(key, v)
	}
	return v
}

func (n *normal) object(doc map[string]any) map[string]any {
	out := make(map[string]any, len(doc))
	metadata, _ := doc["metadata"].(map[string]any)
	version, collection := metadata["resourceVersion"].(string)
	if collection = collection && metadata["uid"] == nil; collection {
		doc = maps.Clone(doc)
		delete(doc, "metadata")
	}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		out[key] = n.value(key, doc[key])
	}
	if collection { // a list or a bookmark; after its items
		metadata = maps.Clone(metadata)
		delete(metadata, "resourceVersion")
		metadata = n.object(metadata)
		metadata["resourceVersion"] = n.listVersion(version)
		out["metadata"] = metadata
	}
	return out
}

// managed sorts managed fields. Servers sort them by time, among others, and a second may begin between two steps on one
// server and not on the other; so it is only checked here that the order is one of those allowed.
func (n *normal) managed(entries []any) any {
	sorted := slices.IsSortedFunc(entries, func(a, b any) int {
		return cmp.Or(
			cmp.Compare(text(a, "operation"), text(b, "operation")),
			cmp.Compare(text(a, "time"), text(b, "time")),
			cmp.Compare(text(a, "manager"), text(b, "manager")),
		)
	})
	entries = slices.SortedFunc(slices.Values(entries), func(a, b any) int {
		return cmp.Or(
			cmp.Compare(text(a, "operation"), text(b, "operation")),
			cmp.Compare(text(a, "manager"), text(b, "manager")),
			cmp.Compare(text(a, "apiVersion"), text(b, "apiVersion")),
			cmp.Compare(text(a, "subresource"), text(b, "subresource")),
		)
	})
	list := []any{}
	for _, entry := range entries {
		list = append(list, n.value("", entry))
	}
	if !sorted {
		list = append(list, "(not in the order of operation, time and manager)")
	}
	return list
}

// sortConflicts brings causes of a conflict between field managers into an order: kube-apiserver has none.
func sortConflicts(causes []any) []any {
	if len(causes) == 0 || text(causes[0], "reason") != "FieldManagerConflict" {
		return causes
	}
	return slices.SortedFunc(slices.Values(causes), func(a, b any) int { return cmp.Compare(text(a, "field"), text(b, "field")) })
}

func text(doc any, name string) string {
	s, _ := field(doc, name).(string)
	return s
}

func (n *normal) leaf(key, v string) any {
	switch key {
	case "resourceVersion":
		return n.version(v)
	case "continue":
		if v != "" {
			return "<continue>"
		}
	case "token":
		if strings.Count(v, ".") == 2 {
			return "<token>"
		}
	case "clusterIP", "clusterIPs":
		if v != "" && v != "None" && !strings.Contains(n.script, v) {
			return "<address>"
		}
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return distance(v, t)
	}
	return n.message(v)
}

// distance returns a time as the distance from now. One that is far away was not made by the server.
func distance(v string, t time.Time) string {
	const grain, far = 10 * time.Minute, 400 * 24 * time.Hour
	d := time.Until(t).Round(grain)
	switch {
	case d == 0:
		return "<now>"
	case d.Abs() > far:
		return v
	}
	return fmt.Sprintf("<now%+.0fm>", d.Minutes())
}

// version numbers the versions of objects.
func (n *normal) version(v string) string {
	number, err := strconv.ParseUint(v, 10, 64)
	if v == "" || err != nil {
		return v
	}
	if label, seen := n.versions[v]; seen {
		return label
	}
	label := fmt.Sprintf("<version %d>", len(n.versions)+1)
	if number < n.latest {
		label = fmt.Sprintf("<version %d, older than one before>", len(n.versions)+1)
	}
	n.versions[v], n.latest = label, max(n.latest, number)
	return label
}

// listVersion returns how the version of a list or a bookmark relates to what the row saw so far. Other rows write
// meanwhile, so nothing more is certain of a new one than that it is not older than the row's objects.
func (n *normal) listVersion(v string) string {
	number, err := strconv.ParseUint(v, 10, 64)
	if v == "" || err != nil {
		return v
	}
	if number >= n.latest {
		if n.lists[v] == "" {
			n.lists[v] = fmt.Sprintf("<list %d>", len(n.lists)+1)
		}
		return "<now>"
	}
	if label := cmp.Or(n.lists[v], n.versions[v]); label != "" {
		return label
	}
	return "<old>"
}

var (
	uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// A name that a server made of "generateName: gen-".
	generated = regexp.MustCompile(`gen-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	// A time within a message.
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	// An object within a message, which kube-apiserver prints as its own Go types have it, and the
	// difference between two.
	quotedObject = regexp.MustCompile(`Invalid value: "?\{.*\}"?: `)
	quotedDiff   = regexp.MustCompile(`(?s)\n(@@ .*)?$`)
	// What a server speaks besides JSON: see noProtobuf.
	protobufToo = regexp.MustCompile(`, application/vnd\.kubernetes\.protobuf(;stream=watch)?`)
	// Names of Go types and files of kube-apiserver.
	goType = regexp.MustCompile(`\(\*\w+\.\w+\)`)
	goFile = regexp.MustCompile(`"pkg/[a-z/]+\.go:\d+"`)
	// Versions within messages.
	versionsInMessages = []*regexp.Regexp{
		regexp.MustCompile(`(too old resource version: )(\d+) \(\d+\)`),
		regexp.MustCompile(`(Too large resource version: \d+, current: )(\d+)`),
		regexp.MustCompile(`(ResourceVersion in (?:precondition|object meta): )(\d+)`),
		regexp.MustCompile(`(the ResourceVersion in (?:the precondition|record) \()(\d+)`),
		regexp.MustCompile(`(resourceVersion: )("\d+")`),
	}
)

func (n *normal) message(text string) string {
	text = uuid.ReplaceAllStringFunc(text, n.uid)
	text = generated.ReplaceAllString(text, "gen-<random>")
	text = instant.ReplaceAllString(text, "<time>")
	text = quotedObject.ReplaceAllString(text, "Invalid value: <object>: ")
	text = quotedDiff.ReplaceAllString(text, "")
	text = protobufToo.ReplaceAllString(text, "")
	text = goType.ReplaceAllString(text, "(<Go type>)")
	text = goFile.ReplaceAllString(text, "<Go file>")
	for _, pattern := range versionsInMessages {
		text = pattern.ReplaceAllString(text, "$1<version>")
	}
	return text
}

func (n *normal) uid(v string) string {
	if strings.Contains(n.script, v) {
		return v
	}
	if n.uids[v] == "" {
		n.uids[v] = fmt.Sprintf("<uid %d>", len(n.uids)+1)
	}
	return n.uids[v]
}
