package networkpolicy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// prefix is that of all labels and annotations but the description.
const prefix = "networking.resources.gardener.cloud/"

// Labels of policies: the Service that a policy belongs to. Policies have no owner references, since many are in other
// namespaces than their Service.
const (
	LabelServiceName      = prefix + "service-name"
	LabelServiceNamespace = prefix + "service-namespace"
)

// Annotations of Services. Others name the ports that pods with an alias may call, see allowedPortsAlias.
const (
	AnnotationNamespaceSelectors = prefix + "namespace-selectors"
	AnnotationNamespaceAlias     = prefix + "pod-label-selector-namespace-alias"
	AnnotationFromWorld          = prefix + "from-world-to-ports"
)

// annotationDescription is that of policies.
const annotationDescription = "gardener.cloud/description"

// Pods that may call a Service have a label with the prefix clientLabelPrefix and this value.
const (
	clientLabelPrefix = prefix + "to-"
	allowed           = "allowed"
)

// maxLabelName is how long the part of a label's key after the slash can be. Of a longer one, the first
// shortenedLabelName bytes stay, and the hash of the whole name follows.
const maxLabelName, shortenedLabelName, hashDigits = 63, 57, 5

// allowedPorts matches the annotation with the ports that pods with an alias may call.
var allowedPorts = regexp.MustCompile(`^` + regexp.QuoteMeta(prefix) + `from-(.+)-allowed-ports$`)

// AllowedPortsAnnotation is the annotation with the ports that pods with an alias may call.
func AllowedPortsAnnotation(alias string) string { return prefix + "from-" + alias + "-allowed-ports" }

// allowedPortsAlias returns the alias in the key of an annotation that allows ports to one.
func allowedPortsAlias(key string) (alias string, is bool) {
	if match := allowedPorts.FindStringSubmatch(key); match != nil {
		return match[1], true
	}
	return "", false
}

// isRelevant reports whether policies follow from an annotation of a Service.
func isRelevant(key string) bool {
	switch key {
	case AnnotationNamespaceSelectors, AnnotationNamespaceAlias, AnnotationFromWorld:
		return true
	}
	_, is := allowedPortsAlias(key)
	return is
}

// clientLabel is the key of the label that clients of something have, and whether it had to be shortened.
func clientLabel(what string) (key string, shortened bool) {
	name := strings.TrimPrefix(clientLabelPrefix, prefix) + what
	if len(name) <= maxLabelName {
		return prefix + name, false
	}
	return prefix + name[:shortenedLabelName] + "-" + shortHash([]byte(name)), true
}

// shortHash keeps names apart that are the same when they are shortened.
func shortHash(of []byte) string {
	sum := sha256.Sum256(of)
	return hex.EncodeToString(sum[:])[:hashDigits]
}

// id names a Service's port in names of policies and in labels.
func id(service string, protocol corev1.Protocol, port intstr.IntOrString) string {
	return fmt.Sprintf("%s-%s-%s", service, strings.ToLower(string(protocol)), port.String())
}

// ingressName and egressName are names of policies. The namespace is that of the Service, and empty if pods of the same
// one are meant; from is where the others are, and empty if they are in the namespace of the policy.
func ingressName(id, from string) string { return "ingress-to-" + id + suffix(from) }

func egressName(namespace, id, from string) string {
	if namespace != "" {
		namespace += "-"
	}
	return "egress-to-" + namespace + id + suffix(from)
}

func suffix(from string) string {
	if from == "" {
		return ""
	}
	return "-from-" + from
}
