package validation

import (
	"regexp"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	metadata = field.NewPath("metadata")
	spec     = field.NewPath("spec")
)

// StandardFinalizers are the ones that need no domain.
var StandardFinalizers = sets.New(string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents)

// nameRule is what a name of a kind must look like.
func nameRule(obj runtime.Object) apivalidation.ValidateNameFunc {
	switch obj.(type) {
	case *corev1.Namespace:
		return apivalidation.ValidateNamespaceName
	case *corev1.Service, *appsv1.StatefulSet:
		return apivalidation.NameIsDNSLabel
	case *corev1.ServiceAccount:
		return apivalidation.ValidateServiceAccountName
	case *rbacv1.Role, *rbacv1.ClusterRole, *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		return path.ValidatePathSegmentName
	}
	return apivalidation.NameIsDNSSubdomain
}

// Create checks a new object, which has its defaults.
func Create(obj runtime.Object, namespaced bool) field.ErrorList {
	meta := obj.(metav1.Object)
	errs := object(meta, namespaced, nameRule(obj))
	for i, finalizer := range meta.GetFinalizers() {
		if !strings.Contains(finalizer, "/") && !StandardFinalizers.Has(finalizer) {
			errs = append(errs, field.Invalid(metadata.Child("finalizers").Index(i), finalizer,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return append(errs, content(obj)...)
}

// Update checks what an object is to become; both have their defaults.
func Update(obj, old runtime.Object, namespaced bool) field.ErrorList {
	errs := Metadata(obj.(metav1.Object), old.(metav1.Object), namespaced)
	// kube-apiserver asks both the strategy of all kinds and that of this one.
	errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj.(metav1.Object), old.(metav1.Object), metadata)...)
	errs = append(errs, content(obj)...)
	return append(errs, unchanged(obj, old)...)
}

// UpdateStatus checks what the status of an object is to become.
func UpdateStatus(obj, old runtime.Object, namespaced bool) field.ErrorList {
	errs := Metadata(obj.(metav1.Object), old.(metav1.Object), namespaced)
	if s, ok := obj.(*corev1.Service); ok && s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0 {
		errs = append(errs, field.Forbidden(field.NewPath("status", "loadBalancer", "ingress"), "may only be used when `spec.type` is 'LoadBalancer'"))
	}
	return errs
}

// Metadata checks the metadata of an update of any kind.
func Metadata(meta, old metav1.Object, namespaced bool) field.ErrorList {
	errs := object(meta, namespaced, path.ValidatePathSegmentName)
	return append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(meta, old, metadata)...)
}

// NewMetadata checks the metadata of a new custom resource.
func NewMetadata(meta metav1.Object, namespaced bool) field.ErrorList {
	return object(meta, namespaced, apivalidation.NameIsDNSSubdomain)
}

// object checks metadata by itself, and words what is wrong with owner references as kube-apiserver 1.36 does: the library,
// which is newer, tells which one it is.
func object(meta metav1.Object, namespaced bool, name apivalidation.ValidateNameFunc) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaAccessor(meta, namespaced, name, metadata)
	for _, err := range errs {
		if within := ownerReference.FindStringSubmatch(err.Field); within != nil {
			err.Field = "metadata.ownerReferences." + within[1]
			if err.Type == field.ErrorTypeRequired {
				err.Type, err.BadValue = field.ErrorTypeInvalid, ""
			}
			if within[1] == "apiVersion" && err.BadValue == "" {
				err.Detail = "version must not be empty"
			}
		}
	}
	return errs
}

var ownerReference = regexp.MustCompile(`^metadata\.ownerReferences\[\d+\]\.(apiVersion|kind|name|uid)$`)

// content checks an object by itself.
func content(obj runtime.Object) field.ErrorList {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		return configMap(o)
	case *corev1.Secret:
		return secret(o)
	case *corev1.Service:
		return service(o)
	case *corev1.Pod:
		return podSpec(&o.Spec, spec)
	case *corev1.PersistentVolumeClaim:
		return claim(o)
	case *appsv1.Deployment:
		errs := append(replicas(o.Spec.Replicas), selector(o.Spec.Selector, spec.Child("selector"), "deployment", true)...)
		return append(errs, workload(o.Spec.Selector, &o.Spec.Template)...)
	case *appsv1.ReplicaSet:
		errs := append(replicas(o.Spec.Replicas), selector(o.Spec.Selector, spec.Child("selector"), "replicaset", true)...)
		return append(errs, workload(o.Spec.Selector, &o.Spec.Template)...)
	case *appsv1.StatefulSet:
		errs := append(replicas(o.Spec.Replicas), selector(o.Spec.Selector, spec.Child("selector"), "statefulset", true)...)
		template := o.Spec.Template.DeepCopy()
		for _, c := range o.Spec.VolumeClaimTemplates {
			template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: c.Name})
		}
		return append(errs, workload(o.Spec.Selector, template)...)
	case *appsv1.DaemonSet:
		errs := selector(o.Spec.Selector, spec.Child("selector"), "daemonset", false)
		return append(errs, workload(o.Spec.Selector, &o.Spec.Template)...)
	case *autoscalingv1.Scale:
		return apivalidation.ValidateNonnegativeField(int64(o.Spec.Replicas), spec.Child("replicas"))
	case *batchv1.Job:
		return job(&o.Spec, spec)
	case *batchv1.CronJob:
		return cronJob(o)
	case *rbacv1.RoleBinding:
		return binding(o.RoleRef, o.Subjects, true)
	case *rbacv1.ClusterRoleBinding:
		return binding(o.RoleRef, o.Subjects, false)
	case *apiextensionsv1.CustomResourceDefinition:
		return definition(o)
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		var errs field.ErrorList
		for i, w := range o.Webhooks {
			errs = append(errs, webhook(w.Name, w.ClientConfig, field.NewPath("webhooks").Index(i))...)
		}
		return errs
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		var errs field.ErrorList
		for i, w := range o.Webhooks {
			errs = append(errs, webhook(w.Name, w.ClientConfig, field.NewPath("webhooks").Index(i))...)
		}
		return errs
	}
	return nil
}

// unchanged checks what cannot be changed.
func unchanged(obj, old runtime.Object) field.ErrorList {
	same := apivalidation.ValidateImmutableField
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		before := old.(*corev1.ConfigMap)
		return immutable(before.Immutable, o.Immutable, part{"data", o.Data, before.Data}, part{"binaryData", o.BinaryData, before.BinaryData})
	case *corev1.Secret:
		before := old.(*corev1.Secret)
		errs := same(o.Type, before.Type, field.NewPath("type"))
		return append(errs, immutable(before.Immutable, o.Immutable, part{"data", o.Data, before.Data})...)
	case *corev1.Service:
		return serviceUnchanged(o, old.(*corev1.Service))
	case *corev1.Pod:
		return podUnchanged(o, old.(*corev1.Pod))
	case *corev1.PersistentVolumeClaim:
		return claimUnchanged(o, old.(*corev1.PersistentVolumeClaim))
	case *appsv1.Deployment:
		return same(o.Spec.Selector, old.(*appsv1.Deployment).Spec.Selector, spec.Child("selector"))
	case *appsv1.ReplicaSet:
		return same(o.Spec.Selector, old.(*appsv1.ReplicaSet).Spec.Selector, spec.Child("selector"))
	case *appsv1.DaemonSet:
		return same(o.Spec.Selector, old.(*appsv1.DaemonSet).Spec.Selector, spec.Child("selector"))
	case *appsv1.StatefulSet:
		return statefulSetUnchanged(o, old.(*appsv1.StatefulSet))
	case *batchv1.Job:
		return jobUnchanged(o, old.(*batchv1.Job))
	case *rbacv1.RoleBinding:
		return roleRefUnchanged(o.RoleRef, old.(*rbacv1.RoleBinding).RoleRef)
	case *rbacv1.ClusterRoleBinding:
		return roleRefUnchanged(o.RoleRef, old.(*rbacv1.ClusterRoleBinding).RoleRef)
	case *schedulingv1.PriorityClass:
		if o.Value != old.(*schedulingv1.PriorityClass).Value {
			return field.ErrorList{field.Forbidden(field.NewPath("value"), "may not be changed in an update.")}
		}
	case *storagev1.StorageClass:
		before := old.(*storagev1.StorageClass)
		var errs field.ErrorList
		if !equal(o.Parameters, before.Parameters) {
			errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
		}
		if o.Provisioner != before.Provisioner {
			errs = append(errs, field.Forbidden(field.NewPath("provisioner"), "updates to provisioner are forbidden."))
		}
		errs = append(errs, same(o.ReclaimPolicy, before.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
		return append(errs, same(o.VolumeBindingMode, before.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
	case *apiextensionsv1.CustomResourceDefinition:
		before := old.(*apiextensionsv1.CustomResourceDefinition)
		if !established(before) {
			return nil
		}
		errs := same(o.Spec.Scope, before.Spec.Scope, spec.Child("scope"))
		errs = append(errs, same(o.Spec.Names.Kind, before.Spec.Names.Kind, spec.Child("names", "kind"))...)
		errs = append(errs, same(o.Spec.Group, before.Spec.Group, spec.Child("group"))...)
		return append(errs, same(o.Spec.Names.Plural, before.Spec.Names.Plural, spec.Child("names", "plural"))...)
	}
	return nil
}
