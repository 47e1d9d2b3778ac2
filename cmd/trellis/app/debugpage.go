package app

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// markup is HTML that is written in this file. Whatever comes from elsewhere is a string, and can only be a value of
// it.
type markup string

// document is an HTML page on its way.
//
// html/template would do the same, but it calls methods by names that no linker knows. So a program with it has every
// exported method of every type in it: with it this one is half as large again, on disk and in memory.
type document struct{ strings.Builder }

// add adds markup, in which each %s is a value, as text: names and messages come from others.
func (d *document) add(m markup, values ...any) {
	for i, value := range values {
		values[i] = html.EscapeString(text(value))
	}
	_, _ = fmt.Fprintf(d, string(m), values...) // into memory
}

// addIf adds markup if there is anything to say.
func (d *document) addIf(condition bool, m markup, values ...any) {
	if condition {
		d.add(m, values...)
	}
}

// text is a value as people read it, and nothing for a time that there is not.
func text(value any) string {
	switch value := value.(type) {
	case time.Time:
		return value.UTC().Format(time.RFC3339)
	case *time.Time:
		if value == nil {
			return ""
		}
		return text(*value)
	default:
		return fmt.Sprint(value)
	}
}

// html is the page for browsers.
func (p debugPage) html() string {
	d := &document{}
	d.add(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Trellis: targets</title>
<style>body{font-family:sans-serif}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:2px 6px;text-align:left;vertical-align:top;font-size:smaller}</style>
</head><body>
<h1>Targets</h1>
`)
	role := "standing by"
	if p.Leading {
		role = "leading"
	}
	d.add("<p>%s, version %s, %s, %s.\n", p.Identity, p.Version, role, p.Time)
	d.addIf(p.Stuck != "", "<strong>The loop %s makes no progress.</strong>\n", p.Stuck)
	d.addIf(p.Omitted > 0, "%s rows are left out.\n", p.Omitted)
	d.add(`<a href="?format=json">JSON</a></p>
<table><tr><th>target</th><th>state</th><th>since</th><th>reason</th><th>connection</th><th>round trip</th><th>last success</th><th>failures</th><th>next attempt</th><th>credential ends</th>
<th>in flight</th><th>requests ok/failed</th><th>objects</th><th>watches</th></tr>
`)
	for _, target := range p.Targets {
		target.addTo(d)
	}
	d.add("</table>\n<h1>Queues</h1>\n")
	d.addIf(len(p.Queues) == 0, "<p>None: this replica does not lead.</p>\n")
	for _, queue := range p.Queues {
		queue.addTo(d)
	}
	d.add("</body></html>\n")
	return d.String()
}

func (t debugTarget) addTo(d *document) {
	d.add("<tr><td>%s<br>%s</td><td>%s</td><td>%s</td>\n", t.Target, t.KubernetesVersion, t.State, t.Since)
	d.add("<td>%s %s", t.Reason, t.Message)
	d.addIf(t.PendingReason != "", "<br>Pending: %s %s", t.PendingReason, t.PendingMessage)
	d.addIf(t.Overfull != "", "<br>%s", t.Overfull)
	d.add("</td>\n<td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>\n", t.Connection, t.RoundTrip,
		t.LastSuccess, t.ConsecutiveFailures, t.NextAttempt, t.CredentialExpiry)
	d.add("<td>%s/%s</td><td>%s/%s</td><td>%s</td>\n<td>", t.InFlight, t.MaxInFlight, t.Succeeded, t.Failed, t.Objects)
	if len(t.Watches) > 0 {
		d.add("<details><summary>%s, %s not synced</summary>\n", len(t.Watches), t.Unsynced)
		for _, watch := range t.Watches {
			d.add("%s: %s", watch.Name, watch.Objects)
			d.addIf(watch.Absent, " (the target does not have it)")
			d.addIf(!watch.Synced && !watch.Absent, " (not synced)")
			d.add("<br>")
		}
		d.add("</details>")
	}
	d.add("</td></tr>\n")
}

func (q debugQueue) addTo(d *document) {
	d.add("<h2>Class %s</h2>\n<p>%s wait, %s for want of a worker; %s being worked on, %s of them without a seat, "+
		"%s delayed.</p>\n", q.Class, q.Depth, q.Oldest, q.InFlight, q.Waiting, q.Delayed)
	if len(q.Flows) == 0 {
		return
	}
	d.add("<table><tr><th>target</th><th>ready</th><th>in flight</th><th>without a seat</th><th>oldest</th></tr>\n")
	for _, f := range q.Flows {
		d.add("<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", f.Name, f.Ready, f.InFlight,
			f.Waiting, f.Oldest)
	}
	d.add("</table>\n")
}
