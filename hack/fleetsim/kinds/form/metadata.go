package form

import (
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var metadata = field.NewPath("metadata")

// StandardFinalizers are the ones that need no domain.
var StandardFinalizers = sets.New(string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents,
	metav1.FinalizerDeleteDependents)

// object is one of a built-in kind.
type object interface {
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
func nameRule(obj object) apivalidation.ValidateNameFunc {
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

// create checks the metadata of a new object of a built-in kind.
func create(obj object, namespaced bool) field.ErrorList {
	errs := checkMetadata(obj, namespaced, nameRule(obj))
	for i, finalizer := range obj.GetFinalizers() {
		if !strings.Contains(finalizer, "/") && !StandardFinalizers.Has(finalizer) {
			errs = append(errs, field.Invalid(metadata.Child("finalizers").Index(i), finalizer,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// update checks what the metadata of an object of a built-in kind is to become.
func update(obj, old object, namespaced bool) field.ErrorList {
	errs := Metadata(obj, old, namespaced)
	// kube-apiserver asks both the strategy of all kinds and that of this one.
	return append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)...)
}

// Metadata checks the metadata of an update of any kind.
func Metadata(meta, old metav1.Object, namespaced bool) field.ErrorList {
	errs := checkMetadata(meta, namespaced, pathSegment)
	return append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(meta, old, metadata)...)
}

// NewMetadata checks the metadata of a new custom resource.
func NewMetadata(meta metav1.Object, namespaced bool) field.ErrorList {
	return checkMetadata(meta, namespaced, apivalidation.NameIsDNSSubdomain)
}

// checkMetadata checks metadata by itself, and words what is wrong with owner references as kube-apiserver 1.36 does:
// the library, which is newer, names the reference.
func checkMetadata(meta metav1.Object, namespaced bool, name apivalidation.ValidateNameFunc) field.ErrorList {
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
