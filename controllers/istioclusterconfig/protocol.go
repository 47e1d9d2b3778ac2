package istioclusterconfig

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// protocol is what gateways speak with a port of a Service, as far as it is known.
type protocol uint8

const (
	other    protocol = iota // nothing that patches have to know
	http2                    // HTTP/2
	asClient                 // what the client speaks, which may be HTTP/2
)

// http2Protocols are protocols of ports that are HTTP/2.
var http2Protocols = []string{"http2", "kubernetes.io/h2c", "grpc", "grpc-web"}

// ofPort is the protocol that a port of a Service says: by its field appProtocol, else by the prefix of its name.
func ofPort(name string, appProtocol *string) protocol {
	said := prefixOf(name)
	if appProtocol != nil {
		said = strings.ToLower(*appProtocol)
	}
	if slices.Contains(http2Protocols, said) {
		return http2
	}
	return other
}

// prefixOf is what the name of a port says about its protocol.
func prefixOf(name string) string {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "grpc-web") {
		return "grpc-web" // the only one with a hyphen
	}
	prefix, _, _ := strings.Cut(name, "-")
	return prefix
}

// ofPolicy is the protocol that a trafficPolicy, or what it says about a port, says.
func ofPolicy(policy map[string]any) protocol {
	http, _, _ := unstructured.NestedFieldNoCopy(policy, "connectionPool", "http") // what cannot be read is not there
	settings, _ := http.(map[string]any)
	if settings["useClientProtocol"] == true {
		return asClient
	}
	if settings["h2UpgradePolicy"] == "UPGRADE" {
		return http2
	}
	return other
}

// of is the protocol of a port of a Service that a rule is about.
func (r *rule) of(p port) protocol {
	for _, own := range r.ports {
		if own.number == p.number {
			return own.protocol
		}
	}
	if r.protocol != other {
		return r.protocol
	}
	return p.protocol
}
