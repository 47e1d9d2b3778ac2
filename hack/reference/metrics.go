package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/trellis-hub/trellis/metrics"
)

// The parts of the page.
const (
	head = `# Metrics

<!-- Generated from the code by "make generate". Do not edit. -->

The hub serves these metrics on ` + "`/metrics`" + ` of the port ` + "`server.metrics`" + `, with those of Go, of the
process, of controller-runtime and of client-go beside them
(` + "`go_*`, `process_*`, `controller_runtime_*`, `rest_client_*`" + `).

The label ` + "`target`" + ` is the ` + "`namespace/name`" + ` of a TargetCluster; the source cluster as a target is
` + "`source`" + `. The label ` + "`class`" + ` is the name of a class, ` + "`resources`" + ` for the default class. No
label holds the name of an object or the text of an error. Of names that others choose, such as those of field
managers, a limited number has series of their own; all others are ` + "`other`" + `.

`
	perTargetHead = `## Of each target

A healthy target has at most 15 of these series; controllers, webhooks and problems of a target add those that are
about them. They are removed with the target. Histograms of each target cost
eleven more series each, so they are off unless ` + "`metrics.targetHistograms`" + ` is set. Every replica is
connected to every target, so ` + "`max by (target)`" + ` is the right query; series about ManagedResources come from
the leader alone.

`
	fleetHead = `## Of the hub and of the fleet

`
)

func metricsPage(all []*metrics.Definition) []byte {
	page := bytes.NewBufferString(head)
	page.WriteString(perTargetHead)
	table(page, all, true)
	page.WriteString("\n" + fleetHead)
	table(page, all, false)
	return page.Bytes()
}

func table(page *bytes.Buffer, all []*metrics.Definition, perTarget bool) {
	page.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, d := range all {
		if d.PerTarget() != perTarget {
			continue
		}
		var labels []string
		for _, l := range d.Labels {
			if l != metrics.LabelTarget {
				labels = append(labels, "`"+l+"`")
			}
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, strings.Join(labels, ", "), d.Help)
	}
}
