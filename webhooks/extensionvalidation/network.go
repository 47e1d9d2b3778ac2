package extensionvalidation

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// IP families.
const ipv4, ipv6 = "IPv4", "IPv6"

func networks() kind {
	k := of("Network", "networks", true, network, func(n *extensions.NetworkSpec) []immutable {
		return []immutable{{"type", n.Type}, {"podCIDR", n.PodCIDR}, {"serviceCIDR", n.ServiceCIDR}}
	})
	fixed := k.immutable
	k.immutable = func(object, old json.RawMessage) (field.ErrorList, error) {
		faults, err := fixed(object, old)
		if err != nil {
			return nil, err
		}
		spec, err := decode[extensions.NetworkSpec](object)
		if err != nil {
			return nil, err
		}
		oldSpec, err := decode[extensions.NetworkSpec](old)
		if err != nil {
			return nil, err
		}
		from, to := families(oldSpec), families(spec)
		dual := []string{ipv4, ipv6}
		moves := slices.Equal(from, dual[:1]) && slices.Equal(to, dual) || slices.Equal(from, dual) &&
			slices.Equal(to, dual[:1])
		if !slices.Equal(from, to) && !moves {
			faults = append(faults, field.Invalid(field.NewPath("spec", "ipFamilies"), untrusted.Name(fmt.Sprint(to)),
				"field is immutable, but for IPv4 to IPv4 with IPv6 and back"))
		}
		return faults, nil
	}
	return k
}

// families are those of a network; IPv4 if it says nothing.
func families(n *extensions.NetworkSpec) []string {
	if len(n.IPFamilies) == 0 {
		return []string{ipv4}
	}
	return n.IPFamilies
}

func network(n *extensions.NetworkSpec, _ string, path *field.Path) field.ErrorList {
	faults := required(path, [2]string{"type", n.Type}, [2]string{"podCIDR", n.PodCIDR},
		[2]string{"serviceCIDR", n.ServiceCIDR})
	all := families(n)
	seen := map[string]bool{}
	for i, family := range all {
		path := path.Child("ipFamilies").Index(i)
		wrong := oneOf(path, family, ipv4, ipv6)
		if seen[family] {
			wrong = append(wrong, field.Duplicate(path, untrusted.Name(family)))
		}
		if seen[family] = true; len(wrong) > 0 {
			return append(faults, wrong...) // what follows depends on the families
		}
	}
	pods, podFaults := cidr(path.Child("podCIDR"), n.PodCIDR, all)
	services, serviceFaults := cidr(path.Child("serviceCIDR"), n.ServiceCIDR, all)
	faults = append(append(faults, podFaults...), serviceFaults...)
	onlyIPv6 := len(all) == 1 && all[0] == ipv6
	if pods.IsValid() && services.IsValid() && pods.Overlaps(services) && !onlyIPv6 {
		faults = append(faults,
			field.Invalid(path.Child("serviceCIDR"), services.String(), "must not overlap with the podCIDR"))
	}
	return faults
}

// cidr returns a range of addresses; one that is not valid if there is none, or with faults.
func cidr(path *field.Path, text string, families []string) (netip.Prefix, field.ErrorList) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, field.ErrorList{field.Invalid(path, untrusted.Name(text), "must be a CIDR")}
	}
	if len(families) < 2 && prefix.Addr().Is4() != (families[0] == ipv4) {
		return prefix, field.ErrorList{field.Invalid(path, prefix.String(), "must be of the family "+families[0])}
	}
	return prefix, nil
}

func dnsRecord(d *extensions.DNSRecordSpec, _ string, path *field.Path) field.ErrorList {
	faults := append(required(path, [2]string{"type", d.Type}), secretRef(path, d.SecretRef)...)
	for name, value := range map[string]*string{"region": d.Region, "zone": d.Zone} {
		if value != nil && *value == "" {
			faults = append(faults, field.Invalid(path.Child(name), "", "must not be empty"))
		}
	}
	name := strings.TrimPrefix(d.Name, "*.")
	if d.RecordType == "TXT" {
		name = strings.TrimPrefix(name, "_")
	}
	faults = append(faults, fullyQualified(path.Child("name"), name)...)
	faults = append(faults, oneOf(path.Child("recordType"), d.RecordType, "A", "AAAA", "CNAME", "TXT")...)
	if len(d.Values) == 0 {
		faults = append(faults, field.Required(path.Child("values"), "field is required"))
	}
	if d.RecordType == "CNAME" && len(d.Values) > 1 {
		faults = append(faults, field.Invalid(path.Child("values"), len(d.Values), "a CNAME has exactly one value"))
	}
	for i, value := range d.Values {
		path := path.Child("values").Index(i)
		switch d.RecordType {
		case "A", "AAAA":
			if netutils.ParseIPSloppy(value) == nil {
				faults = append(faults, field.Invalid(path, untrusted.Name(value), "must be an IP address"))
			}
		case "CNAME":
			faults = append(faults, fullyQualified(path, value)...)
		}
		if len(faults) > maxFaults {
			break
		}
	}
	if ttl := d.TTL; ttl != nil && (*ttl < 0 || *ttl > math.MaxInt32) {
		faults = append(faults,
			field.Invalid(path.Child("ttl"), *ttl, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return faults
}

// fullyQualified has a fault if a text is no domain name of at least two labels.
func fullyQualified(path *field.Path, text string) field.ErrorList {
	if len(text) > validation.DNS1123SubdomainMaxLength+1 {
		return field.ErrorList{field.TooLong(path, "", validation.DNS1123SubdomainMaxLength)}
	}
	return validation.IsFullyQualifiedDomainName(path, text)
}
