package shoot20

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// author makes up texts. It is seeded by what it writes about.
type author struct{ *rand.Rand }

func newAuthor(seed int64, about ...string) author {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(strings.Join(about, "\x00")))           // it never fails
	return author{rand.New(rand.NewPCG(uint64(seed), hash.Sum64()))} //nolint:gosec // it shall be the same each time
}

func (a author) pick(from []string) string { return from[a.IntN(len(from))] }

// sizes of texts vary by half to both sides.
func (a author) around(size int) int { return size/2 + a.IntN(size+1) }

var (
	nouns = strings.Fields(`address backend cache certificate cluster connection container core device disk endpoint event filter forwarder gateway
		handler interface kernel kubelet label lease limit link log memory metric namespace network node packet pod policy pool port probe process
		proxy queue record replica request resolver route rule scrape server service session socket state stream subnet table target thread timeout
		token traffic upstream volume watch worker zone`)
	adjectives = strings.Fields(`active allowed available bad closed cold current default denied dropped dynamic early enabled expired external failed
		fast forced free full healthy idle internal invalid last late local long maximum minimum new old open pending primary ready remote retried
		secondary shared short slow stale static total unknown unused used valid warm`)
	verbs = strings.Fields(`accept allow answer block check close collect compare count create delete deny drop export fetch forward ignore keep limit
		list log match mirror open parse probe read refresh reject reload replace report resolve retry rewrite route scan send skip sync terminate
		update validate wait watch write`)
	groups = strings.Fields(`apps autoscaling batch cert.example.com coordination.k8s.io dns.example.com events.k8s.io metrics.k8s.io networking.k8s.io
		policy rbac.authorization.k8s.io storage.k8s.io`)
	kinds = strings.Fields(`configmaps cronjobs daemonsets deployments endpoints endpointslices events ingresses jobs leases namespaces networkpolicies
		nodes nodes/status persistentvolumeclaims persistentvolumes pods pods/log replicasets resourcequotas secrets serviceaccounts services
		statefulsets storageclasses volumeattachments`)
	requests = strings.Fields(`get list watch create update patch delete`)
)

func (a author) term(separator string) string {
	return a.pick(adjectives) + separator + a.pick(nouns)
}

// dashboard is a document as Grafana has them.
func (a author) dashboard(size int) string {
	var b strings.Builder
	b.WriteString("{\n  \"annotations\": {\"list\": []},\n  \"editable\": false,\n  \"panels\": [\n")
	for id := 1; b.Len() < size; id++ {
		if id > 1 {
			b.WriteString(",\n")
		}
		metric := fmt.Sprintf("%s_%s_%s", a.pick(nouns), a.term("_"), a.pick([]string{"total", "seconds", "bytes", "count"}))
		fmt.Fprintf(&b, `    {
      "datasource": "cluster-prometheus",
      "fieldConfig": {"defaults": {"unit": %q, "custom": {"lineWidth": 1, "fillOpacity": %d, "stacking": {"mode": "none"}}}},
      "gridPos": {"h": %d, "w": 12, "x": %d, "y": %d},
      "id": %d,
      "targets": [{"expr": "sum(rate(%s{job=\"%s\",pod=~\"$pod\"}[$__rate_interval])) by (pod)", "legendFormat": "{{pod}}", "refId": "A"}],
      "title": %q,
      "type": "timeseries"
    }`, a.pick([]string{"s", "Bps", "short", "percentunit"}), a.IntN(50), 6+a.IntN(4), 12*(id%2), id/2*8, id, metric, a.pick(nouns), strings.Title(a.term(" ")+" "+a.pick(nouns))) //nolint:staticcheck // ASCII
	}
	b.WriteString("\n  ],\n  \"refresh\": \"1m\",\n  \"schemaVersion\": 39\n}\n")
	return b.String()
}

// config is a configuration in lines.
func (a author) config(size int) string {
	var b strings.Builder
	for b.Len() < size {
		switch a.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "# %s the %s %s of the %s\n", a.pick(verbs), a.pick(adjectives), a.pick(nouns), a.term(" "))
		case 1:
			fmt.Fprintf(&b, "%s.%s: %q\n", a.pick(nouns), a.term("-"), fmt.Sprintf("%d.%d.%d.%d:%d", 10, a.IntN(256), a.IntN(256), a.IntN(256), 1024+a.IntN(64000)))
		case 2:
			fmt.Fprintf(&b, "%s.%s: %t\n", a.pick(nouns), a.term("-"), a.IntN(2) == 0)
		default:
			fmt.Fprintf(&b, "%s.%s-%s: %dms\n", a.pick(nouns), a.pick(verbs), a.term("-"), a.IntN(60000))
		}
	}
	return b.String()
}

// key is as random as keys and certificates are.
func (a author) key(kind string, size int) string {
	raw := make([]byte, size*3/4)
	for i := range raw {
		raw[i] = byte(a.Uint32())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-----BEGIN %s-----\n", kind)
	text := base64.StdEncoding.EncodeToString(raw)
	for len(text) > 64 {
		b.WriteString(text[:64] + "\n")
		text = text[64:]
	}
	fmt.Fprintf(&b, "%s\n-----END %s-----\n", text, kind)
	return b.String()
}
