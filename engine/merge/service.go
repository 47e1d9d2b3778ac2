package merge

import (
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// hasNodePorts reports whether a Service has allocated ports and addresses outside the cluster, which are kept.
func hasNodePorts(spec map[string]any) bool {
	t := serviceType(spec)
	return t == "LoadBalancer" || t == "NodePort"
}

func serviceType(spec map[string]any) string {
	if t, _ := spec["type"].(string); t != "" {
		return t
	}
	return "ClusterIP"
}

// service keeps what was allocated for a Service.
func (k keeper) service(spec, live map[string]any) {
	if serviceType(spec) == "ExternalName" {
		return
	}
	if hasNodePorts(spec) {
		k.nodePorts(spec, live)
		if empty(spec["loadBalancerIP"]) {
			k.unlessEmpty(spec, live, "loadBalancerIP")
		}
	}
	if empty(spec["clusterIP"]) && serviceType(live) != "ExternalName" && !empty(live["clusterIP"]) {
		k.ifThere(spec, live, "clusterIP", fields("spec"))
		k.ifThere(spec, live, "clusterIPs", fields("spec"))
	}
	if serviceType(spec) == "LoadBalancer" && serviceType(live) == "LoadBalancer" && empty(spec["healthCheckNodePort"]) &&
		spec["externalTrafficPolicy"] == "Local" && live["externalTrafficPolicy"] == "Local" {
		k.unlessEmpty(spec, live, "healthCheckNodePort")
	}
}

func (k keeper) unlessEmpty(spec, live map[string]any, field string) {
	delete(spec, field)
	if !empty(live[field]) {
		k.ifThere(spec, live, field, fields("spec"))
	}
}

// nodePorts sets the node port of ports without one to that of the most similar live port, which has the same name or
// number. Of equally similar ones the last wins; no two ports of a protocol get the same node port.
func (k keeper) nodePorts(spec, live map[string]any) {
	ports, _ := spec["ports"].([]any)
	livePorts, _ := live["ports"].([]any)
	taken := map[string]bool{}
	use := func(protocol string, nodePort any) string {
		n, _ := integer(nodePort)
		return fmt.Sprintf("%s/%d", protocol, n)
	}
	for _, p := range ports {
		if port, ok := p.(map[string]any); ok && !empty(port["nodePort"]) {
			taken[use(protocol(port), port["nodePort"])] = true
		}
	}
	for _, p := range ports {
		port, ok := p.(map[string]any)
		if !ok || !empty(port["nodePort"]) {
			continue
		}
		delete(port, "nodePort")
		var best map[string]any
		for _, l := range livePorts {
			livePort, ok := l.(map[string]any)
			if ok && !empty(livePort["nodePort"]) && !taken[use(protocol(port), livePort["nodePort"])] &&
				similarity(port, livePort) > 0 && similarity(port, livePort) >= similarity(port, best) {
				best = livePort
			}
		}
		if best == nil {
			continue
		}
		taken[use(protocol(port), best["nodePort"])] = true
		sameItem := sameNumber(port["port"], best["port"]) && protocol(port) == protocol(best)
		// In the same list item the owner of the node port stays its owner. In a new item it has to be sent.
		if k.full || !sameItem || has(k.owned, nodePortPath(best)) {
			port["nodePort"] = best["nodePort"]
		}
	}
}

// similarity says how much two ports have in common, zero if they are different ports.
func similarity(a, b map[string]any) (n int) {
	if b == nil {
		return 0
	}
	if text(a["name"]) == text(b["name"]) {
		n += 4
	}
	if sameNumber(a["port"], b["port"]) {
		n++
	}
	if n > 0 && protocol(a) == protocol(b) {
		n += 2
	}
	return n
}

func nodePortPath(port map[string]any) fieldpath.Path {
	number, _ := integer(port["port"])
	return append(append(fields("spec", "ports"), item("port", number, "protocol", protocol(port))), fields("nodePort")...)
}

func protocol(port map[string]any) string {
	if p := text(port["protocol"]); p != "" {
		return p
	}
	return "TCP"
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func sameNumber(a, b any) bool {
	x, ok := integer(a)
	y, okToo := integer(b)
	return ok && okToo && x == y
}

// integer returns a number of decoded JSON, or of a Go literal.
func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case float64:
		return int64(n), true
	}
	return 0, false
}

func empty(v any) bool {
	n, number := integer(v)
	return v == nil || v == "" || number && n == 0
}
