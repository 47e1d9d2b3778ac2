package allocation

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// serviceNetwork and its size are 10.96.0.0/12.
	serviceNetwork     = 10<<24 | 96<<16
	serviceNetworkSize = 1 << 20
)

// Fill fills in what no client asked for and no field manager owns: the finalizer of a Namespace, what admission adds
// to a Pod, the address of a Service, which follows from its name and thus is the same each time, and the stored
// versions of a CustomResourceDefinition. It changes o; live is what was stored before, nil if o is new.
func Fill(resource schema.GroupResource, o, live *unstructured.Unstructured) {
	switch resource.Group + "/" + resource.Resource {
	case "/namespaces":
		keepNamespace(o, live)
	case "/pods":
		if live == nil {
			admitPod(o)
		}
	case "/services":
		allocateService(o, live)
	case "apiextensions.k8s.io/customresourcedefinitions":
		rememberStored(o)
	}
}

// keepNamespace gives a Namespace the finalizer that keeps it until it is empty; only the subresource finalize takes
// it away.
func keepNamespace(o, live *unstructured.Unstructured) {
	finalizers := []any{}
	if live != nil {
		finalizers, _, _ = unstructured.NestedSlice(live.Object, "spec", "finalizers")
	} else if given, _, _ := unstructured.NestedSlice(o.Object, "spec", "finalizers"); given != nil {
		finalizers = given
	}
	if live == nil && !slices.Contains(finalizers, any(string(corev1.FinalizerKubernetes))) {
		finalizers = append(finalizers, string(corev1.FinalizerKubernetes))
	}
	spec, _ := o.Object["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
		o.Object["spec"] = spec
	}
	if delete(spec, "finalizers"); len(finalizers) > 0 {
		spec["finalizers"] = finalizers
	}
}

// admitPod adds what the admission plugins for priorities and tolerations add to a Pod.
func admitPod(o *unstructured.Unstructured) {
	spec, ok := o.Object["spec"].(map[string]any)
	if !ok {
		return
	}
	if spec["priority"] == nil {
		spec["priority"], spec["preemptionPolicy"] = int64(0), string(corev1.PreemptLowerPriority)
	}
	tolerations, _ := spec["tolerations"].([]any)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerated := slices.ContainsFunc(tolerations, func(toleration any) bool {
			t, _ := toleration.(map[string]any)
			return (t["key"] == key || t["key"] == nil) && (t["effect"] == string(corev1.TaintEffectNoExecute) || t["effect"] == nil)
		})
		if !tolerated {
			tolerations = append(tolerations, map[string]any{
				"key": key, "operator": string(corev1.TolerationOpExists), "effect": string(corev1.TaintEffectNoExecute), "tolerationSeconds": int64(300),
			})
		}
	}
	spec["tolerations"] = tolerations
}

func number(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return h.Sum32()
}

// serviceIP is the address of a Service.
func serviceIP(namespace, name string) string {
	// Neither the address of the network nor that of the Service "kubernetes", nor the last one.
	ip := serviceNetwork + 2 + number(namespace+"/"+name)%(serviceNetworkSize-3)
	return fmt.Sprintf("%d.%d.%d.%d", ip>>24, ip>>16&255, ip>>8&255, ip&255)
}

func allocateService(o, live *unstructured.Unstructured) {
	spec, ok := o.Object["spec"].(map[string]any)
	if !ok {
		return
	}
	var before map[string]any
	if live != nil {
		before, _ = live.Object["spec"].(map[string]any)
	}
	kind, _ := spec["type"].(string)
	if kind == string(corev1.ServiceTypeExternalName) {
		if before["type"] != kind {
			for _, key := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} {
				delete(spec, key)
			}
		}
		return
	}
	ips, _ := spec["clusterIPs"].([]any)
	ip, _ := spec["clusterIP"].(string)
	old, _ := before["clusterIP"].(string)
	switch {
	case ip == "" && len(ips) > 0:
		ip, _ = ips[0].(string)
	case ip == "" && old != "":
		ip = old
	case ip == "":
		ip = serviceIP(o.GetNamespace(), o.GetName())
	}
	spec["clusterIP"] = ip
	if len(ips) == 0 || live != nil && len(ips) == 1 && ips[0] == old {
		spec["clusterIPs"] = []any{ip}
	}
	families, policy := []any{"IPv4"}, "SingleStack"
	if selector, _ := spec["selector"].(map[string]any); ip == corev1.ClusterIPNone && len(selector) == 0 {
		families, policy = []any{"IPv4", "IPv6"}, "RequireDualStack"
	}
	for key, value := range map[string]any{"ipFamilies": families, "ipFamilyPolicy": policy} {
		if spec[key] == nil {
			if spec[key] = value; before[key] != nil {
				spec[key] = before[key]
			}
		}
	}
}

// rememberStored adds the version that is stored to those that have ever been.
func rememberStored(o *unstructured.Unstructured) {
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	before, _ := o.Object["status"].(map[string]any)
	stored, _ := before["storedVersions"].([]any)
	for _, version := range versions {
		v, _ := version.(map[string]any)
		if v["storage"] == true && !slices.Contains(stored, v["name"]) {
			status := maps.Clone(before) // others have it as well
			if status == nil {
				status = map[string]any{}
			}
			status["storedVersions"] = append(slices.Clone(stored), v["name"])
			o.Object["status"] = status
			return
		}
	}
}
