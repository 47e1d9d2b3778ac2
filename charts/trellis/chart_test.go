package chart_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	chart "github.com/trellis-hub/trellis/charts/trellis"
)

func TestManagedResourceCRDIsTheOneOfGardener(t *testing.T) {
	g := NewWithT(t)
	crd := chart.ManagedResourceCRD()

	g.Expect(crd.Name).To(Equal("managedresources.resources.gardener.cloud"))
	g.Expect(crd.Spec.Scope).To(Equal(apiextensionsv1.NamespaceScoped))
	g.Expect(crd.Spec.Names).To(Equal(apiextensionsv1.CustomResourceDefinitionNames{
		Kind: "ManagedResource", ListKind: "ManagedResourceList", Plural: "managedresources", Singular: "managedresource", ShortNames: []string{"mr"},
	}))
	g.Expect(crd.Spec.Conversion).To(BeNil())
	g.Expect(crd.Spec.Versions).To(HaveLen(1))

	version := crd.Spec.Versions[0]
	g.Expect(version.Name).To(Equal("v1alpha1"))
	g.Expect(version.Served && version.Storage).To(BeTrue())
	g.Expect(version.Subresources).To(Equal(&apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}))
	g.Expect(columns(version)).To(Equal([][3]string{ // those of Gardener, in its order, and between them some of the hub
		{"Class", "string", `.spec.class`},
		{"Ready", "string", `.status.conditions[?(@.type=="Ready")].status`},  // not of Gardener
		{"Reason", "string", `.status.conditions[?(@.type=="Ready")].reason`}, // not of Gardener
		{"Applied", "string", `.status.conditions[?(@.type=="ResourcesApplied")].status`},
		{"Healthy", "string", `.status.conditions[?(@.type=="ResourcesHealthy")].status`},
		{"Progressing", "string", `.status.conditions[?(@.type=="ResourcesProgressing")].status`},
		{"Contested", "string", `.status.conditions[?(@.type=="Contested")].status`},   // not of Gardener
		{"Since", "date", `.status.conditions[?(@.type=="Ready")].lastTransitionTime`}, // not of Gardener
		{"Message", "string", `.status.conditions[?(@.type=="Ready")].message`},        // not of Gardener
		{"Age", "date", `.metadata.creationTimestamp`},
	}))
	for _, column := range version.AdditionalPrinterColumns {
		wide := slices.Contains([]string{"Contested", "Since", "Message"}, column.Name)
		priority := int32(0)
		if wide {
			priority = 1
		}
		g.Expect(column.Priority).To(Equal(priority), "column %s only with -o wide", column.Name)
	}
}

func TestManagedResourceSchemaAcceptsWhatTheOneOfGardenerAccepts(t *testing.T) {
	g := NewWithT(t)
	root := chart.ManagedResourceCRD().Spec.Versions[0].Schema.OpenAPIV3Schema
	spec, status := root.Properties["spec"], root.Properties["status"]

	g.Expect(root.Required).To(BeEmpty())
	g.Expect(spec.Required).To(ConsistOf("secretRefs"))
	g.Expect(names(spec)).To(ConsistOf("class", "secretRefs", "injectLabels", "forceOverwriteLabels", "forceOverwriteAnnotations",
		"keepObjects", "equivalences", "deletePersistentVolumeClaims"))
	g.Expect(status.Required).To(BeEmpty())
	g.Expect(names(status)).To(ConsistOf("conditions", "observedGeneration", "resources", "secretsDataChecksum"))

	secretRef := spec.Properties["secretRefs"].Items.Schema
	g.Expect(secretRef.XMapType).To(Equal(ptr.To("atomic")))
	g.Expect(secretRef.Required).To(BeEmpty())
	g.Expect(string(secretRef.Properties["name"].Default.Raw)).To(Equal(`""`))

	groupKind := spec.Properties["equivalences"].Items.Schema.Items.Schema
	g.Expect(groupKind.Required).To(ConsistOf("group", "kind"))

	condition := status.Properties["conditions"].Items.Schema
	g.Expect(condition.Required).To(ConsistOf("type", "status", "reason", "message", "lastTransitionTime", "lastUpdateTime"))
	g.Expect(names(*condition)).To(ConsistOf("type", "status", "reason", "message", "lastTransitionTime", "lastUpdateTime", "codes"))

	resource := status.Properties["resources"].Items.Schema
	g.Expect(resource.XMapType).To(Equal(ptr.To("atomic")))
	g.Expect(resource.Required).To(BeEmpty())
	g.Expect(names(*resource)).To(ConsistOf("apiVersion", "kind", "name", "namespace", "uid", "resourceVersion", "fieldPath", "labels", "annotations"))

	eachSchema(*root, func(schema apiextensionsv1.JSONSchemaProps) {
		g.Expect(schema.XValidations).To(BeEmpty(), "CEL rule")
		g.Expect(schema.Enum).To(BeEmpty(), "enum")
		g.Expect(schema.Pattern).To(BeEmpty(), "pattern")
		g.Expect(schema.MaxLength).To(BeNil(), "size limit")
		g.Expect(schema.MaxItems).To(BeNil(), "size limit")
		g.Expect(schema.MaxProperties).To(BeNil(), "size limit")
		g.Expect(schema.XListType).To(BeNil(), "list type")
	})
}

func TestTargetClusterCRDOutlivesTheChart(t *testing.T) {
	g := NewWithT(t)
	crd := chart.TargetClusterCRD()
	g.Expect(crd.Spec.Names.ShortNames).To(ConsistOf("tc"))
	g.Expect(crd.Annotations).To(HaveKeyWithValue("helm.sh/resource-policy", "keep"))
}

func TestTheHubItselfHasNarrowRights(t *testing.T) {
	g := NewWithT(t)
	granted := map[string][]string{} // verbs, by resource, the names that it is for, and the namespace if it is for one
	for _, object := range chart.HubIdentity("hub") {
		var rules []rbacv1.PolicyRule
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			rules = role.Rules
		case *rbacv1.Role:
			rules = role.Rules
		}
		for _, rule := range rules {
			g.Expect(rule.NonResourceURLs).To(BeEmpty())
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					key := strings.TrimPrefix(group+"/"+resource, "/")
					if len(rule.ResourceNames) > 0 {
						key += " " + strings.Join(rule.ResourceNames, ",")
					}
					if ns := object.GetNamespace(); ns != "" {
						key += " in " + ns
					}
					granted[key] = append(granted[key], rule.Verbs...)
				}
			}
		}
	}
	read := []string{"get", "list", "watch"}
	g.Expect(granted).To(Equal(map[string][]string{
		"resources.gardener.cloud/managedresources":        append(slices.Clone(read), "patch"),
		"resources.gardener.cloud/managedresources/status": {"patch"},
		"hub.gardener.cloud/targetclusters":                append(slices.Clone(read), "create", "patch", "delete"),
		"hub.gardener.cloud/targetclusters/status":         {"patch"},
		"namespaces": read,
		// where a class mentions the token requestor
		"secrets": append(slices.Clone(read), "patch"),
		// where those who read metrics are authenticated
		"authentication.k8s.io/tokenreviews":                              {"create"},
		"authorization.k8s.io/subjectaccessreviews":                       {"create"},
		"machine.sapcloud.io/machines":                                    {"list", "get"},
		"events":                                                          {"create", "patch"},
		"events.k8s.io/events":                                            {"create", "patch"},
		"configmaps cluster-identity in kube-system":                      {"get"},
		"coordination.k8s.io/leases gardener-resource-manager":            read,
		"coordination.k8s.io/leases in hub":                               {"create"},
		"coordination.k8s.io/leases trellis,trellis-heartbeat in hub":     {"get", "update"},
		"serviceaccounts/token " + chart.SourceServiceAccount + " in hub": {"create"},
		"secrets in hub":                                                  {"create"},        // where the hub serves webhooks
		"secrets trellis-webhooks in hub":                                 {"get", "update"}, // where the hub serves webhooks
	}))
}

func columns(version apiextensionsv1.CustomResourceDefinitionVersion) [][3]string {
	var columns [][3]string
	for _, column := range version.AdditionalPrinterColumns {
		columns = append(columns, [3]string{column.Name, column.Type, column.JSONPath})
	}
	return columns
}

func names(schema apiextensionsv1.JSONSchemaProps) []string {
	var names []string
	for name := range schema.Properties {
		names = append(names, name)
	}
	return names
}

func eachSchema(schema apiextensionsv1.JSONSchemaProps, f func(apiextensionsv1.JSONSchemaProps)) {
	f(schema)
	for _, property := range schema.Properties {
		eachSchema(property, f)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		eachSchema(*schema.Items.Schema, f)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		eachSchema(*schema.AdditionalProperties.Schema, f)
	}
}
