package conformance

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
)

// TestComparisonNotices is about the comparison itself: which answers it takes for different, and which not.
func TestComparisonNotices(t *testing.T) {
	const entry = `{"manager":"a","operation":"Apply","apiVersion":"v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}`
	object := func(uid, version string) string {
		return `{"metadata":{"uid":"` + uid + `","resourceVersion":"` + version + `"}}`
	}
	const one, two = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	for name, c := range map[string]struct {
		left, right []string // bodies of the answers to the steps of a row
		same        bool
	}{
		"the same":                {[]string{`{"a":1}`}, []string{`{"a":1}`}, true},
		"another value":           {[]string{`{"a":1}`}, []string{`{"a":2}`}, false},
		"a field too many":        {[]string{`{"a":1}`}, []string{`{"a":1,"b":null}`}, false},
		"another order of fields": {[]string{`{"a":1,"b":2}`}, []string{`{"b":2,"a":1}`}, true},
		"another order of items":  {[]string{`{"a":[1,2]}`}, []string{`{"a":[2,1]}`}, false},
		"a number as a text":      {[]string{`{"a":1}`}, []string{`{"a":"1"}`}, false},
		"another uid":             {[]string{object(one, "1")}, []string{object(two, "1")}, true},
		"a uid that changes": {[]string{object(one, "1"), object(one, "1")},
			[]string{object(one, "1"), object(two, "1")}, false},
		"other versions": {[]string{object(one, "1"), object(one, "2")},
			[]string{object(one, "5"), object(one, "9")}, true},
		"a version that stays": {[]string{object(one, "1"), object(one, "2")},
			[]string{object(one, "5"), object(one, "5")}, false},
		"a version that falls": {[]string{object(one, "1"), object(one, "2")},
			[]string{object(one, "5"), object(one, "4")}, false},
		"a list older than its items": {
			[]string{`{"items":[` + object(one, "3") + `],"metadata":{"resourceVersion":"3"}}`},
			[]string{`{"items":[` + object(one, "3") + `],"metadata":{"resourceVersion":"2"}}`}, false,
		},
		"managed fields in another order": {
			[]string{`{"managedFields":[` + entry + `,{"manager":"b","operation":"Update"}]}`},
			[]string{`{"managedFields":[{"manager":"b","operation":"Update"},` + entry + `]}`}, false,
		},
		"a managed field too few": {[]string{`{"managedFields":[` + entry + `]}`}, []string{`{"managedFields":[]}`},
			false},
		"a time far from now": {[]string{`{"t":"2001-01-01T00:00:00Z"}`},
			[]string{`{"t":"2001-01-01T00:00:01Z"}`}, false},
		"a message": {[]string{`{"message":"no"}`}, []string{`{"message":"yes"}`}, false},
		"a message with other uids": {[]string{`{"message":"not ` + one + `"}`},
			[]string{`{"message":"not ` + two + `"}`}, true},
		"a message with another order":       {[]string{`{"message":"too old resource version: 1 (7)"}`}, []string{`{"message":"too old resource version: 1 (9)"}`}, true},
		"a cluster IP":                       {[]string{`{"clusterIP":"10.0.0.1"}`}, []string{`{"clusterIP":"10.0.0.2"}`}, true},
		"no cluster IP":                      {[]string{`{"clusterIP":"10.0.0.1"}`}, []string{`{"clusterIP":"None"}`}, false},
		"conflicts of managers in any order": {[]string{`{"causes":[{"reason":"FieldManagerConflict","field":"a"},{"reason":"FieldManagerConflict","field":"b"}]}`}, []string{`{"causes":[{"reason":"FieldManagerConflict","field":"b"},{"reason":"FieldManagerConflict","field":"a"}]}`}, true},
		"no JSON":                            {[]string{`{}`}, []string{`nothing`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			left, right, same := newNormal(row{}), newNormal(row{}), true
			for i := range c.left {
				texts := [2]string{left.text(answer{code: 200, body: decode([]byte(c.left[i]))}), right.text(answer{code: 200, body: decode([]byte(c.right[i]))})}
				same = same && texts[0] == texts[1]
			}
			g.Expect(same).To(Equal(c.same))
		})
	}
}

// TestHeadersThatCount is about what is compared besides bodies.
func TestHeadersThatCount(t *testing.T) {
	g := NewWithT(t)
	text := func(code int, name, value string) string {
		return newNormal(row{}).text(answer{code: code, header: http.Header{name: {value}}})
	}
	g.Expect(text(200, "Warning", `299 - "a"`)).NotTo(Equal(text(200, "Warning", `299 - "b"`)))
	g.Expect(text(200, "Content-Type", "application/json")).NotTo(Equal(text(200, "Content-Type", "application/yaml")))
	g.Expect(text(200, "Date", "today")).To(Equal(text(200, "Date", "tomorrow")))
	g.Expect(text(200, "Date", "today")).NotTo(Equal(text(201, "Date", "today")))
}

// TestRowsThatAgreeForTheWrongReasonFail is about what a row says itself.
func TestRowsThatAgreeForTheWrongReasonFail(t *testing.T) {
	g := NewWithT(t)
	answers := func(first, second int) [2]answer { return [2]answer{{code: first}, {code: second}} }
	texts := func(first, second string) [2]string { return [2]string{first, second} }
	g.Expect(judge(get("/"), answers(200, 200), texts("a", "a"))).To(BeEmpty())
	g.Expect(judge(get("/"), answers(404, 404), texts("a", "a"))).To(ConsistOf(ContainSubstring("expects 200")))
	g.Expect(judge(get("/"), answers(200, 200), texts("a", "b"))).To(ConsistOf(ContainSubstring("does not answer as")))
	known := get("/").differs(406, "because")
	g.Expect(judge(known, answers(200, 406), texts("a", "b"))).To(BeEmpty())
	g.Expect(judge(known, answers(200, 404), texts("a", "b"))).To(ConsistOf(ContainSubstring("meant to differ with 406")))
	g.Expect(judge(known, answers(200, 200), texts("a", "a"))).To(ConsistOf(ContainSubstring("they are said to differ")))
}
