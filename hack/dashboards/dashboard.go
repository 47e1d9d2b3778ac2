package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// flavour is who is to read a dashboard.
type flavour string

const (
	// grafana is a current one.
	grafana flavour = "dashboards"
	// plutono is Gardener's fork of Grafana 7.5. It has neither state timelines nor heat maps.
	plutono flavour = "plutono"
)

// dashboard is one page.
type dashboard struct {
	uid, title, description string
	// category is a tag beside "seed" and "trellis".
	category string
	// perTarget adds the variable "target".
	perTarget bool
	rows      []row
}

// row is a headline and what is below it.
type row struct {
	title  string
	panels []panel
}

// panel is one picture.
type panel struct {
	kind               kind
	title, description string
	// unit is Grafana's name of one.
	unit    string
	queries []query
	// width is of 24 columns, height in rows. Zero: as usual for the kind.
	width, height int
	// bad is from where on a value is shown in red. Zero: never.
	bad float64
	// badBelow turns bad round: everything below is red.
	badBelow bool
	// states replaces values by words.
	states map[string]string
	// drill is where a click on a value leads.
	drill *drill
	// stacked piles the series of a timeseries.
	stacked bool
	// instead are the queries of the timeseries that a flavour shows which does not know the kind. Default: the same.
	instead []query
}

// as is the panel as a flavour knows it.
func (p panel) as(f flavour) panel {
	if f == grafana || p.kind != timeline && p.kind != heatmap {
		return p
	}
	p.kind = timeseries
	if p.instead != nil {
		p.queries = p.instead
	}
	return p
}

// query is what a panel asks for.
type query struct {
	expr string
	// legend names the series; in a table, the column of the values.
	legend string
	// unit is that of a column, if it is not that of the panel.
	unit string
}

// drill leads from a panel to a dashboard.
type drill struct {
	title, uid string
	// target says that the dashboard is that of the target that was clicked.
	target bool
}

var (
	toTarget       = &drill{title: "This target", uid: "trellis-target", target: true}
	toHub          = &drill{title: "Performance of the hub", uid: "trellis-hub"}
	toDrift        = &drill{title: "Drift", uid: "trellis-drift"}
	toConnectivity = &drill{title: "Credentials and connectivity", uid: "trellis-connectivity"}
)

type kind string

const (
	stat       kind = "stat"
	timeseries kind = "timeseries"
	table      kind = "table"
	bars       kind = "bargauge"
	timeline   kind = "state-timeline"
	heatmap    kind = "heatmap"
)

type object = map[string]any

// datasource is what every panel asks. The variable lets people choose.
func (f flavour) datasource() any {
	if f == plutono {
		return "$datasource"
	}
	return object{"type": "prometheus", "uid": "${datasource}"}
}

// schema is the version of the format: each flavour migrates what is older, and refuses or loses what is newer.
func (f flavour) schema() int {
	if f == plutono {
		return 27
	}
	return 41
}

// hubLabels select the hub that people chose. Series without the label cluster have an empty one.
const hubLabels = `cluster=~"$cluster", job="$job"`

// series are those of the hub that say nothing of its job in a query.
var series = regexp.MustCompile(`((?:^|[^a-z_:])(?:trellis_|trellis:|target:|class:)[a-z0-9_:]+)(\{)?`)

// ofHub restricts a query to the hub that people chose.
func ofHub(expr string) string {
	expr = strings.ReplaceAll(expr, `job="trellis"`, hubLabels)
	return series.ReplaceAllStringFunc(expr, func(match string) string {
		if name, ok := strings.CutSuffix(match, "{"); ok {
			return name + "{" + hubLabels + ", "
		}
		return match + "{" + hubLabels + "}"
	})
}

func (d dashboard) json(f flavour) ([]byte, error) {
	content, err := json.MarshalIndent(object{
		"uid": d.uid, "title": d.title, "description": d.description,
		"tags":          []string{"seed", "trellis", d.category},
		"schemaVersion": f.schema(), "version": 1, "editable": false, "graphTooltip": 1,
		"timezone": "browser", "time": object{"from": "now-1h", "to": "now"}, "refresh": "1m",
		"timepicker": object{"refresh_intervals": []string{"30s", "1m", "5m"}},
		"templating": object{"list": d.variables(f)},
		"links": []object{{
			"type": "dashboards", "title": "Trellis", "tags": []string{"trellis"}, "asDropdown": true, "includeVars": false, "keepTime": true,
		}},
		"annotations": object{"list": []object{}},
		"panels":      d.panels(f),
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing dashboard %s: %w", d.uid, err)
	}
	return append(content, '\n'), nil
}

func (d dashboard) variables(f flavour) []object {
	variables := []object{
		{
			"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1, "hide": 0,
			"includeAll": false, "multi": false, "regex": "", "skipUrlSync": false, "options": []object{}, "current": object{},
		},
		f.choice("cluster", "Cluster", "label_values(trellis_build_info, cluster)"),
		f.choice("job", "Job", `label_values(trellis_build_info{cluster=~"$cluster"}, job)`),
	}
	if d.perTarget {
		variables = append(variables, f.choice("target", "Target",
			"label_values(trellis_target_connects_total{"+hubLabels+"}, target)"))
	}
	return variables
}

// choice is a variable with the answers to a query.
func (f flavour) choice(name, label, ask string) object {
	var query any = ask
	if f == grafana {
		query = object{"query": ask, "refId": name}
	}
	return object{
		"type": "query", "name": name, "label": label, "datasource": f.datasource(), "query": query, "definition": ask,
		"refresh": 2, "sort": 1, "hide": 0, "includeAll": false, "multi": false, "regex": "", "skipUrlSync": false,
		"options": []object{}, "current": object{},
	}
}

// panels lays the rows out from left to right and from top to bottom.
func (d dashboard) panels(f flavour) []object {
	var out []object
	id, y := 0, 0
	place := func(o object, x, y, w, h int) {
		id++
		o["id"], o["gridPos"] = id, object{"x": x, "y": y, "w": w, "h": h}
		out = append(out, o)
	}
	for _, r := range append([]row{hubRow()}, d.rows...) {
		place(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, y, 24, 1)
		y++
		x, tallest := 0, 0
		for _, p := range r.panels {
			p = p.as(f)
			w, h := p.size()
			if x+w > 24 {
				x, y, tallest = 0, y+tallest, 0
			}
			place(p.json(f), x, y, w, h)
			x, tallest = x+w, max(tallest, h)
		}
		y += tallest
	}
	return out
}

func (p panel) size() (width, height int) {
	width, height = p.width, p.height
	if width == 0 {
		width = map[kind]int{stat: 6, timeseries: 12, table: 24, bars: 12, timeline: 24, heatmap: 12}[p.kind]
	}
	if height == 0 {
		height = map[kind]int{stat: 4, timeseries: 8, table: 8, bars: 8, timeline: 8, heatmap: 8}[p.kind]
	}
	return width, height
}

func (p panel) json(f flavour) object {
	targets := make([]object, len(p.queries))
	for i, q := range p.queries {
		targets[i] = object{"refId": refID(i), "expr": ofHub(q.expr), "legendFormat": q.legend}
		if f == grafana {
			targets[i]["datasource"], targets[i]["editorMode"], targets[i]["range"] = f.datasource(), "code", true
		}
		switch p.kind {
		case table:
			targets[i]["instant"], targets[i]["format"], targets[i]["range"] = true, "table", false
		case bars:
			targets[i]["instant"], targets[i]["range"] = true, false
		case heatmap:
			targets[i]["format"] = "heatmap"
		}
		if f == plutono {
			delete(targets[i], "range")
		}
	}
	o := object{
		"type": string(p.kind), "title": p.title, "description": p.description,
		"datasource": f.datasource(), "targets": targets,
		"options":     p.options(f),
		"fieldConfig": object{"defaults": p.defaults(f), "overrides": p.overrides()},
	}
	if p.drill != nil && !p.drill.target {
		o["links"] = []object{{"title": p.drill.title, "url": p.drill.url(""), "targetBlank": false}}
	}
	if p.kind == table {
		o["transformations"] = p.transformations()
	}
	return o
}

func (p panel) options(f flavour) object {
	reduce := object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	legend := object{"displayMode": "list", "placement": "bottom", "calcs": []string{}}
	tooltip := object{"mode": "multi", "sort": "desc"}
	if f == grafana {
		legend["showLegend"] = true
	}
	switch p.kind {
	case stat:
		return object{"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "auto", "reduceOptions": reduce}
	case bars:
		return object{"displayMode": "basic", "orientation": "horizontal", "showUnfilled": true, "reduceOptions": reduce}
	case table:
		return object{"showHeader": true}
	case timeline:
		return object{
			"mergeValues": true, "showValue": "never", "rowHeight": 0.9, "alignValue": "left", "legend": legend,
			"tooltip": object{"mode": "single", "sort": "none"},
		}
	case heatmap:
		return object{
			"calculate": false, "cellGap": 1, "showValue": "never", "yAxis": object{"unit": p.unit, "axisPlacement": "left"},
			"color": object{"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange",
				"scale": "exponential", "exponent": 0.5, "steps": 64},
			"tooltip": object{"mode": "single", "yHistogram": false}, "legend": object{"show": true},
			"rowsFrame": object{"layout": "auto"}, "filterValues": object{"le": 1e-9},
		}
	default:
		if f == plutono {
			return object{"legend": legend, "tooltip": tooltip, "tooltipOptions": object{"mode": "multi"}}
		}
		return object{"legend": legend, "tooltip": tooltip}
	}
}

func (p panel) defaults(f flavour) object {
	good, bad := "green", "red"
	steps := []object{{"color": good, "value": nil}}
	if p.bad != 0 {
		if p.badBelow {
			good, bad = bad, good
		}
		steps = []object{{"color": good, "value": nil}, {"color": bad, "value": p.bad}}
	}
	defaults := object{
		"unit": p.unit, "mappings": p.mappings(f), "thresholds": object{"mode": "absolute", "steps": steps},
		"custom": object{}, "color": object{"mode": "thresholds"},
	}
	if p.kind == timeseries {
		defaults["color"] = object{"mode": "palette-classic"}
		custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false}
		if p.stacked {
			custom["stacking"] = object{"mode": "normal", "group": "A"}
		}
		defaults["custom"] = custom
	}
	switch p.kind {
	case timeline:
		defaults["custom"] = object{"fillOpacity": 70, "lineWidth": 0}
	case heatmap:
		defaults["custom"] = object{"scaleDistribution": object{"type": "linear"}}
	}
	if p.drill != nil && p.drill.target && p.kind != table {
		defaults["links"] = []object{{"title": p.drill.title, "url": p.drill.url("${__field.labels.target}")}}
	}
	return defaults
}

// mappings replaces values by words.
func (p panel) mappings(f flavour) []object {
	mappings := []object{}
	words := object{}
	for i, value := range []string{"0", "1"} {
		if text, ok := p.states[value]; ok {
			mappings = append(mappings, object{"id": len(mappings) + 1, "type": 1, "value": value, "text": text})
			words[value] = object{"text": text, "index": i}
		}
	}
	if f == plutono || len(words) == 0 {
		return mappings
	}
	return []object{{"type": "value", "options": words}}
}

// overrides gives columns of a table their units, and a link to that of targets.
func (p panel) overrides() []object {
	overrides := []object{}
	if p.kind != table {
		return overrides
	}
	for _, q := range p.queries {
		if q.unit != "" {
			overrides = append(overrides, override(q.legend, "unit", q.unit))
		}
	}
	if p.drill != nil && p.drill.target {
		overrides = append(overrides, override("target", "links", []object{{"title": p.drill.title, "url": p.drill.url("${__data.fields.target}")}}))
	}
	return overrides
}

func override(field, id string, value any) object {
	return object{
		"matcher":    object{"id": "byName", "options": field},
		"properties": []object{{"id": id, "value": value}},
	}
}

// transformations make one table of the answers to all queries, one line for each set of labels.
func (p panel) transformations() []object {
	names := object{}
	for i, q := range p.queries {
		names["Value #"+refID(i)] = q.legend
	}
	if len(p.queries) == 1 {
		names = object{"Value": p.queries[0].legend, "Value #A": p.queries[0].legend}
	}
	return []object{
		{"id": "merge", "options": object{}},
		{"id": "organize", "options": object{"excludeByName": object{"Time": true}, "indexByName": object{}, "renameByName": names}},
	}
}

func (d drill) url(target string) string {
	url := "/d/" + d.uid + "?${__url_time_range}&var-datasource=${datasource}&var-cluster=${cluster}&var-job=${job}"
	if d.target {
		url += "&var-target=" + target
	}
	return url
}

func refID(i int) string { return string(rune('A' + i)) }
