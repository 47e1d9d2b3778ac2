package networkpolicy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/untrusted"
)

// Bounds of what a Service says. They are far above what a real Service needs.
const (
	maxAnnotation = 16 << 10 // bytes of the value of an annotation
	maxSelectors  = 50       // of namespaces
	maxPorts      = 100      // of a Service, and of one annotation
	maxAliases    = 20       // that ports are allowed to
	maxShown      = 128      // bytes of a value or key in messages
)

// InputError says what is wrong with a field or an annotation of an object of the target. It stays until that changes.
type InputError struct {
	Key, Value, Problem string
}

// Error implements error.
func (e *InputError) Error() string {
	return untrusted.Message(fmt.Sprintf("%s: %q %s",
		untrusted.Text(e.Key, maxShown), untrusted.Text(e.Value, maxShown), e.Problem))
}

// rules are what the annotations of a Service say.
type rules struct {
	alias     string
	selectors []labels.Selector
	allowed   []Allowed
	fromWorld bool
	world     []networkingv1.NetworkPolicyPort
}

// parse reads the annotations of a Service.
func parse(annotations map[string]string) (r rules, err error) {
	r.alias = annotations[AnnotationNamespaceAlias]
	if value, is := annotations[AnnotationNamespaceSelectors]; is {
		if r.selectors, err = parseSelectors(value); err != nil {
			return rules{}, err
		}
	}
	if value, is := annotations[AnnotationFromWorld]; is {
		r.fromWorld = true
		if r.world, err = parsePorts(AnnotationFromWorld, value); err != nil {
			return rules{}, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		alias, is := allowedPortsAlias(key)
		if !is {
			continue
		}
		if len(r.allowed) == maxAliases {
			return rules{}, &InputError{key, annotations[key], fmt.Sprintf(
				"is one more than the %d annotations of its kind that a Service can have", maxAliases)}
		}
		ports, err := parsePorts(key, annotations[key])
		if err != nil {
			return rules{}, err
		}
		if slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port == nil }) {
			return rules{}, &InputError{key, annotations[key], "has an entry without a port"}
		}
		r.allowed = append(r.allowed, Allowed{Alias: alias, Ports: ports})
	}
	return r, nil
}

// parseList reads the JSON list in an annotation.
func parseList[T any](key, value string, most int) ([]T, error) {
	bounds := untrusted.Bounds{Bytes: maxAnnotation, Elements: maxAnnotation / 4, Depth: 10}
	if err := untrusted.Check([]byte(value), bounds); err != nil {
		return nil, &InputError{key, value, fmt.Sprintf("exceeds a bound: %v", err)}
	}
	var list *[]T // nil for null
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return nil, &InputError{key, value, fmt.Sprintf("cannot be read as a JSON list: %v", err)}
	}
	switch {
	case list == nil:
		return nil, &InputError{key, value, "is not a JSON list"}
	case len(*list) > most:
		return nil, &InputError{key, value, fmt.Sprintf("has %d entries, more than %d", len(*list), most)}
	}
	return *list, nil
}

func parseSelectors(value string) ([]labels.Selector, error) {
	const key = AnnotationNamespaceSelectors
	list, err := parseList[metav1.LabelSelector](key, value, maxSelectors)
	if err != nil {
		return nil, err
	}
	selectors := make([]labels.Selector, 0, len(list))
	for i := range list {
		selector, err := metav1.LabelSelectorAsSelector(&list[i])
		if err != nil {
			return nil, &InputError{key, value, fmt.Sprintf("has a selector that is not valid: %v", err)}
		}
		selectors = append(selectors, selector)
	}
	return selectors, nil
}

// parsePorts reads a list of ports, each once. Numbers in quotes are numbers, and the protocol is TCP by default.
func parsePorts(key, value string) ([]networkingv1.NetworkPolicyPort, error) {
	list, err := parseList[networkingv1.NetworkPolicyPort](key, value, maxPorts)
	if err != nil {
		return nil, err
	}
	ports := make([]networkingv1.NetworkPolicyPort, 0, len(list))
	seen := map[string]bool{}
	for _, port := range list {
		port.Protocol = ptr.To(ptr.Deref(port.Protocol, corev1.ProtocolTCP))
		port.Port = withoutQuotes(port.Port)
		if problem := portProblem(port); problem != "" {
			return nil, &InputError{key, value, problem}
		}
		if text := portText(port); !seen[text] {
			seen[text] = true
			ports = append(ports, port)
		}
	}
	return ports, nil
}

// withoutQuotes returns a port whose number is not a string.
func withoutQuotes(port *intstr.IntOrString) *intstr.IntOrString {
	if port == nil || port.Type != intstr.String || strings.Trim(port.StrVal, "0123456789") != "" {
		return port
	}
	number, err := strconv.ParseInt(port.StrVal, 10, 32)
	if err != nil {
		return port
	}
	return ptr.To(intstr.FromInt32(int32(number)))
}

func portProblem(port networkingv1.NetworkPolicyPort) string {
	switch *port.Protocol {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
	default:
		return "has a protocol that is not TCP, UDP or SCTP"
	}
	var problems []string
	switch {
	case port.Port == nil && port.EndPort != nil:
		return "has an endPort without a port"
	case port.Port == nil:
		return ""
	case port.Port.Type == intstr.String:
		problems = validation.IsValidPortName(port.Port.StrVal)
		if port.EndPort != nil {
			return "has an endPort of a port with a name"
		}
	default:
		problems = validation.IsValidPortNum(int(port.Port.IntVal))
		if port.EndPort != nil && (*port.EndPort < port.Port.IntVal || *port.EndPort > 65535) {
			return "has an endPort below its port or above 65535"
		}
	}
	if len(problems) > 0 {
		return "has a port that is not valid: " + problems[0]
	}
	return ""
}

// portText is a port in descriptions, with its protocol.
func portText(port networkingv1.NetworkPolicyPort) string {
	text := string(*port.Protocol)
	if port.Port != nil {
		text += "/" + port.Port.String()
	}
	if port.EndPort != nil {
		text += "-" + strconv.Itoa(int(*port.EndPort))
	}
	return text
}

// matchesAny reports whether one of some selectors matches.
func matchesAny(selectors []labels.Selector, of map[string]string) bool {
	return slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(of)) })
}

// selectorText is a selector in descriptions.
func selectorText(selector metav1.LabelSelector) string {
	text := fmt.Sprint(selector.MatchLabels) // in the order of the keys
	if len(selector.MatchExpressions) > 0 {
		text += " and " + metav1.FormatLabelSelector(&metav1.LabelSelector{MatchExpressions: selector.MatchExpressions})
	}
	return text
}
