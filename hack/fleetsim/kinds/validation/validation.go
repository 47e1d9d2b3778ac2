package validation

import (
	"fmt"
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
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
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

// Object is an object of a built-in kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// pathSegment checks a name that may be anything that fits into a path.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// nameRule is what a name of a kind must look like.
func nameRule(obj Object) apivalidation.ValidateNameFunc {
	switch obj.(type) {
	case *corev1.Namespace:
		return apivalidation.ValidateNamespaceName
	case *corev1.Service, *appsv1.StatefulSet:
		return apivalidation.NameIsDNSLabel
	case *corev1.ServiceAccount:
		return apivalidation.ValidateServiceAccountName
	case *rbacv1.Role, *rbacv1.ClusterRole, *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		return pathSegment
	}
	return apivalidation.NameIsDNSSubdomain
}

// Create checks a new object, which has its defaults.
func Create(obj Object, namespaced bool) field.ErrorList {
	errs := object(obj, namespaced, nameRule(obj))
	for i, finalizer := range obj.GetFinalizers() {
		if !strings.Contains(finalizer, "/") && !StandardFinalizers.Has(finalizer) {
			errs = append(errs, field.Invalid(metadata.Child("finalizers").Index(i), finalizer,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return append(errs, ofKind(obj)...)
}

// Update checks what an object is to become; both have their defaults.
func Update(obj, old Object, namespaced bool) field.ErrorList {
	errs := Metadata(obj, old, namespaced)
	// kube-apiserver asks both the strategy of all kinds and that of this one.
	errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)...)
	errs = append(errs, ofKind(obj)...)
	return append(errs, unchanged(obj, old)...)
}

// UpdateStatus checks what the status of an object is to become.
func UpdateStatus(obj, old Object, namespaced bool) field.ErrorList {
	errs := Metadata(obj, old, namespaced)
	if s, ok := obj.(*corev1.Service); ok && s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0 {
		errs = append(errs, field.Forbidden(field.NewPath("status", "loadBalancer", "ingress"), "may only be used when `spec.type` is 'LoadBalancer'"))
	}
	return errs
}

// Metadata checks the metadata of an update of any kind.
func Metadata(meta, old metav1.Object, namespaced bool) field.ErrorList {
	errs := object(meta, namespaced, pathSegment)
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

// ofKind checks an object by itself.
func ofKind(obj Object) field.ErrorList {
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
		errs = append(errs, strategy(o.Spec.Strategy)...)
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
func unchanged(obj, old Object) field.ErrorList {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		return both(o, old, func(o, old *corev1.ConfigMap) field.ErrorList {
			return immutable(old.Immutable, o.Immutable, part{"data", o.Data, old.Data}, part{"binaryData", o.BinaryData, old.BinaryData})
		})
	case *corev1.Secret:
		return both(o, old, func(o, old *corev1.Secret) field.ErrorList {
			errs := same(o.Type, old.Type, field.NewPath("type"))
			return append(errs, immutable(old.Immutable, o.Immutable, part{"data", o.Data, old.Data})...)
		})
	case *corev1.Service:
		return both(o, old, serviceUnchanged)
	case *corev1.Pod:
		return both(o, old, podUnchanged)
	case *corev1.PersistentVolumeClaim:
		return both(o, old, claimUnchanged)
	case *appsv1.Deployment:
		return both(o, old, func(o, old *appsv1.Deployment) field.ErrorList {
			return selectorUnchanged(o.Spec.Selector, old.Spec.Selector)
		})
	case *appsv1.ReplicaSet:
		return both(o, old, func(o, old *appsv1.ReplicaSet) field.ErrorList {
			return selectorUnchanged(o.Spec.Selector, old.Spec.Selector)
		})
	case *appsv1.DaemonSet:
		return both(o, old, func(o, old *appsv1.DaemonSet) field.ErrorList {
			return selectorUnchanged(o.Spec.Selector, old.Spec.Selector)
		})
	case *appsv1.StatefulSet:
		return both(o, old, statefulSetUnchanged)
	case *batchv1.Job:
		return both(o, old, jobUnchanged)
	case *rbacv1.RoleBinding:
		return both(o, old, func(o, old *rbacv1.RoleBinding) field.ErrorList { return roleRefUnchanged(o.RoleRef, old.RoleRef) })
	case *rbacv1.ClusterRoleBinding:
		return both(o, old, func(o, old *rbacv1.ClusterRoleBinding) field.ErrorList {
			return roleRefUnchanged(o.RoleRef, old.RoleRef)
		})
	case *schedulingv1.PriorityClass:
		return both(o, old, priorityClassUnchanged)
	case *storagev1.StorageClass:
		return both(o, old, storageClassUnchanged)
	case *apiextensionsv1.CustomResourceDefinition:
		return both(o, old, definitionUnchanged)
	}
	return nil
}

// both calls a check with two objects of the same kind.
func both[T Object](obj T, old Object, check func(obj, old T) field.ErrorList) field.ErrorList {
	before, ok := old.(T)
	if !ok {
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("a %T cannot become a %T", old, obj))}
	}
	return check(obj, before)
}

func same(value, old any, at *field.Path) field.ErrorList {
	return apivalidation.ValidateImmutableField(value, old, at)
}
