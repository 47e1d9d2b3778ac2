package allocation

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	// serviceNetwork and its size are 10.96.0.0/12, nodePorts the range of node ports.
	serviceNetwork     = 10<<24 | 96<<16
	serviceNetworkSize = 1 << 20
	firstNodePort      = 30000
	nodePorts          = 2768
)

// Fill fills in what no client asked for and no field manager owns: addresses and node ports of Services, which follow
// from the name and thus are the same each time, the selectors of Jobs, the finalizers of volumes and claims. It changes o;
// live is what was stored before, nil if o is new. A new Job, whose selector has its uid, gets the one given, or one of its
// own if that is empty.
func Fill(resource schema.GroupResource, o, live *unstructured.Unstructured, uid types.UID) {
	switch resource.Group + "/" + resource.Resource {
	case "/namespaces":
		keepNamespace(o, live)
	case "/pods":
		if live == nil {
			admitPod(o)
		}
	case "/services":
		dropTypeDependent(o, live)
		allocateService(o, live)
	case "apiextensions.k8s.io/customresourcedefinitions":
		rememberStored(o)
	case "apps/daemonsets":
		countTemplates(o, live)
	case "batch/jobs":
		if live == nil {
			selectPods(o, uid)
		}
	case "/persistentvolumeclaims":
		if live == nil {
			addFinalizer(o, "kubernetes.io/pvc-protection")
		}
	case "/persistentvolumes":
		if live == nil {
			addFinalizer(o, "kubernetes.io/pv-protection")
		}
	}
}

// keepNamespace gives a Namespace the finalizer that keeps it until it is empty; only the subresource finalize takes it away.
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

func addFinalizer(o *unstructured.Unstructured, finalizer string) {
	if finalizers := o.GetFinalizers(); !slices.Contains(finalizers, finalizer) {
		o.SetFinalizers(append(finalizers, finalizer))
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

// dropTypeDependent drops what the type a Service had needs, and the one it gets does not, unless the write changes it.
func dropTypeDependent(o, live *unstructured.Unstructured) {
	if live == nil {
		return
	}
	spec, _ := o.Object["spec"].(map[string]any)
	before, _ := live.Object["spec"].(map[string]any)
	kind, old := spec["type"], before["type"]
	balanced, hasPorts := string(corev1.ServiceTypeLoadBalancer), []any{string(corev1.ServiceTypeLoadBalancer), string(corev1.ServiceTypeNodePort)}
	drop := func(keys ...string) {
		for _, key := range keys {
			if apiequality.Semantic.DeepEqual(spec[key], before[key]) {
				delete(spec, key)
			}
		}
	}
	if old == balanced && kind != balanced {
		drop("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort")
		_ = unstructured.SetNestedMap(o.Object, map[string]any{}, "status", "loadBalancer")
	}
	if !slices.Contains(hasPorts, old) || slices.Contains(hasPorts, kind) {
		return
	}
	drop("externalTrafficPolicy")
	ports, _ := spec["ports"].([]any)
	oldPorts, _ := before["ports"].([]any)
	for i, port := range ports {
		p, _ := port.(map[string]any)
		if i >= len(oldPorts) {
			break
		}
		if b, _ := oldPorts[i].(map[string]any); b["nodePort"] == p["nodePort"] {
			delete(p, "nodePort")
		}
	}
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
	allocateNodePorts(o, spec, before)
}

func allocateNodePorts(o *unstructured.Unstructured, spec, before map[string]any) {
	kind, _ := spec["type"].(string)
	wanted := kind == string(corev1.ServiceTypeNodePort) ||
		kind == string(corev1.ServiceTypeLoadBalancer) && spec["allocateLoadBalancerNodePorts"] != false
	if !wanted {
		return
	}
	ports, _ := spec["ports"].([]any)
	oldPorts, _ := before["ports"].([]any)
	taken := map[int64]bool{}
	for _, port := range ports {
		if p, ok := port.(map[string]any); ok {
			if number, ok := p["nodePort"].(int64); ok {
				taken[number] = true
			}
		}
	}
	for _, port := range ports {
		p, ok := port.(map[string]any)
		if !ok || p["nodePort"] != nil {
			continue
		}
		for _, old := range oldPorts {
			if b, ok := old.(map[string]any); ok && b["port"] == p["port"] && b["protocol"] == p["protocol"] && b["nodePort"] != nil {
				p["nodePort"] = b["nodePort"]
			}
		}
		if p["nodePort"] == nil {
			candidate := int64(number(fmt.Sprint(o.GetNamespace(), "/", o.GetName(), "/", p["port"], p["protocol"])) % nodePorts)
			for taken[firstNodePort+candidate] {
				candidate = (candidate + 1) % nodePorts
			}
			taken[firstNodePort+candidate] = true
			p["nodePort"] = firstNodePort + candidate
		}
	}
	if spec["externalTrafficPolicy"] == string(corev1.ServiceExternalTrafficPolicyLocal) && kind == string(corev1.ServiceTypeLoadBalancer) &&
		spec["healthCheckNodePort"] == nil {
		if spec["healthCheckNodePort"] = before["healthCheckNodePort"]; spec["healthCheckNodePort"] == nil {
			spec["healthCheckNodePort"] = int64(firstNodePort + number(o.GetNamespace()+"/"+o.GetName()+"/health")%nodePorts)
		}
	}
}

// selectPods gives a Job the selector of its own pods, by its uid.
func selectPods(o *unstructured.Unstructured, uid types.UID) {
	if manual, _, _ := unstructured.NestedBool(o.Object, "spec", "manualSelector"); manual {
		return
	}
	if o.GetUID() == "" {
		if uid == "" {
			uid = uuid.NewUUID()
		}
		o.SetUID(uid)
	}
	own := string(o.GetUID())
	labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range map[string]string{
		"job-name": o.GetName(), "batch.kubernetes.io/job-name": o.GetName(),
		"controller-uid": own, "batch.kubernetes.io/controller-uid": own,
	} {
		if _, ok := labels[key]; !ok {
			labels[key] = value
		}
	}
	_ = unstructured.SetNestedStringMap(o.Object, labels, "spec", "template", "metadata", "labels")
	if len(o.GetLabels()) == 0 {
		o.SetLabels(labels)
	}
	if selected, _, _ := unstructured.NestedString(o.Object, "spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"); selected == "" {
		_ = unstructured.SetNestedField(o.Object, own, "spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid")
	}
}

// countTemplates keeps the generation of the template of a DaemonSet, an annotation.
func countTemplates(o, live *unstructured.Unstructured) {
	generation := int64(1)
	if live != nil {
		old, _ := strconv.ParseInt(live.GetAnnotations()[appsv1.DeprecatedTemplateGeneration], 10, 64)
		generation = old
		now, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
		before, _, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "template")
		if !apiequality.Semantic.DeepEqual(now, before) {
			generation++
		}
	}
	_ = unstructured.SetNestedField(o.Object, strconv.FormatInt(generation, 10), "metadata", "annotations", appsv1.DeprecatedTemplateGeneration)
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
