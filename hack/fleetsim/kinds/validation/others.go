package validation

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxDataSize is how much a ConfigMap or a Secret holds.
const maxDataSize = corev1.MaxSecretSize

func configMap(c *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range c.Data {
		errs = append(errs, dataKey(key, field.NewPath("data"))...)
		if _, twice := c.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range c.BinaryData {
		errs = append(errs, dataKey(key, field.NewPath("binaryData"))...)
		size += len(value)
	}
	if size > maxDataSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxDataSize))
	}
	return errs
}

func dataKey(key string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(at.Key(key), key, message))
	}
	return errs
}

// requiredData are the keys a Secret of a type must have; of those of basic authentication one is enough.
var requiredData = map[corev1.SecretType][]string{
	corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
	corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
	corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
}

func secret(s *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	data := field.NewPath("data")
	size := 0
	for key, value := range s.Data {
		errs = append(errs, dataKey(key, data)...)
		size += len(value)
	}
	if size > maxDataSize {
		errs = append(errs, field.TooLong(data, "", maxDataSize))
	}
	if s.Type == corev1.SecretTypeServiceAccountToken && s.Annotations[corev1.ServiceAccountNameKey] == "" {
		errs = append(errs, field.Required(metadata.Child("annotations").Key(corev1.ServiceAccountNameKey), ""))
	}
	for _, key := range requiredData[s.Type] {
		if _, ok := s.Data[key]; !ok {
			errs = append(errs, field.Required(data.Key(key), ""))
		}
	}
	return errs
}

// part is a field of an object now and before.
type part struct {
	name        string
	now, before any
}

// immutable checks objects that can be made immutable for good.
func immutable(before, now *bool, parts ...part) field.ErrorList {
	if before == nil || !*before {
		return nil
	}
	const message = "field is immutable when `immutable` is set"
	var errs field.ErrorList
	if now == nil || !*now {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), message))
	}
	for _, p := range parts {
		if !equal(p.now, p.before) {
			errs = append(errs, field.Forbidden(field.NewPath(p.name), message))
		}
	}
	return errs
}

func service(s *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	ports := spec.Child("ports")
	if len(s.Spec.Ports) == 0 && s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ClusterIP != corev1.ClusterIPNone {
		errs = append(errs, field.Required(ports, ""))
	}
	names := sets.New[string]()
	for i, port := range s.Spec.Ports {
		if port.Name == "" {
			if len(s.Spec.Ports) > 1 {
				errs = append(errs, field.Required(ports.Index(i).Child("name"), ""))
			}
		} else {
			errs = append(errs, label(port.Name, names, ports.Index(i).Child("name"))...)
		}
		for _, message := range validation.IsValidPortNum(int(port.Port)) {
			errs = append(errs, field.Invalid(ports.Index(i).Child("port"), port.Port, message))
		}
	}
	if !slices.Contains(serviceTypes, string(s.Spec.Type)) {
		errs = append(errs, field.NotSupported(spec.Child("type"), s.Spec.Type, serviceTypes))
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName && s.Spec.ExternalName == "" {
		errs = append(errs, field.Required(spec.Child("externalName"), ""))
	}
	return errs
}

// serviceTypes are all there are.
var serviceTypes = []string{
	string(corev1.ServiceTypeClusterIP), string(corev1.ServiceTypeExternalName), string(corev1.ServiceTypeLoadBalancer), string(corev1.ServiceTypeNodePort),
}

func serviceUnchanged(s, old *corev1.Service) field.ErrorList {
	if s.Spec.Type == corev1.ServiceTypeExternalName || old.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	for i, ip := range old.Spec.ClusterIPs {
		if i >= len(s.Spec.ClusterIPs) {
			if i == 0 {
				errs = append(errs, field.Invalid(spec.Child("clusterIPs").Index(0), s.Spec.ClusterIPs, "primary clusterIP can not be unset"))
			}
		} else if s.Spec.ClusterIPs[i] != ip {
			errs = append(errs, field.Invalid(spec.Child("clusterIPs").Index(i), s.Spec.ClusterIPs, "may not change once set"))
		}
	}
	return errs
}

func claim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	if len(c.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(spec.Child("accessModes"), "at least 1 access mode is required"))
	}
	if _, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(spec.Child("resources").Key(string(corev1.ResourceStorage)), ""))
	}
	return errs
}

func claimUnchanged(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	now, before := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	if before.VolumeName == "" {
		before.VolumeName = now.VolumeName
	}
	if c.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = before.Resources.Requests[corev1.ResourceStorage]
		}
		now.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	var errs field.ErrorList
	if !equal(now, before) {
		// The difference, which kube-apiserver appends, is left out.
		errs = append(errs, field.Forbidden(spec, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	newSize, oldSize := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if status := old.Status.Capacity[corev1.ResourceStorage]; newSize.Cmp(oldSize) < 0 && newSize.Cmp(status) <= 0 {
		errs = append(errs, field.Forbidden(spec.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	return append(errs, same(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
}

func binding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("roleRef")
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	if !sets.New(kinds...).Has(ref.Kind) {
		errs = append(errs, field.NotSupported(at.Child("kind"), ref.Kind, kinds))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		for _, message := range pathSegment(ref.Name, false) {
			errs = append(errs, field.Invalid(at.Child("name"), ref.Name, message))
		}
	}
	for i, s := range subjects {
		at := field.NewPath("subjects").Index(i)
		if s.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			if !namespaced && s.Namespace == "" {
				errs = append(errs, field.Required(at.Child("namespace"), ""))
			}
		case rbacv1.UserKind, rbacv1.GroupKind:
			if s.APIGroup != rbacv1.GroupName {
				errs = append(errs, field.NotSupported(at.Child("apiGroup"), s.APIGroup, []string{rbacv1.GroupName}))
			}
		default:
			errs = append(errs, field.NotSupported(at.Child("kind"), s.Kind,
				[]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
		}
	}
	return errs
}

func roleRefUnchanged(ref, old rbacv1.RoleRef) field.ErrorList {
	if ref == old {
		return nil
	}
	shown := struct{ APIGroup, Kind, Name string }(ref) // without the JSON names, as the type within kube-apiserver
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), shown, "cannot change roleRef")}
}

func definition(d *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	var errs field.ErrorList
	if want := d.Spec.Names.Plural + "." + d.Spec.Group; d.Name != want {
		errs = append(errs, field.Invalid(metadata.Child("name"), d.Name, "must be spec.names.plural+\".\"+spec.group"))
	}
	if d.Spec.Group == "" {
		errs = append(errs, field.Required(spec.Child("group"), ""))
	} else if !strings.Contains(d.Spec.Group, ".") {
		errs = append(errs, field.Invalid(spec.Child("group"), d.Spec.Group, "should be a domain with at least one dot"))
	}
	if d.Spec.Scope == "" {
		errs = append(errs, field.Required(spec.Child("scope"), ""))
	}
	stored := 0
	for i, v := range d.Spec.Versions {
		if v.Storage {
			stored++
		}
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			errs = append(errs, field.Required(spec.Child("versions").Index(i).Child("schema", "openAPIV3Schema"), ""))
		}
	}
	if stored != 1 {
		errs = append(errs, field.Invalid(spec.Child("versions"), d.Spec.Versions, "must have exactly one version marked as storage version"))
		if len(d.Status.StoredVersions) == 0 {
			errs = append(errs, field.Invalid(field.NewPath("status", "storedVersions"), d.Status.StoredVersions, "must have at least one stored version"))
		}
	}
	names := d.Spec.Names
	for _, name := range []struct{ field, value string }{
		{"plural", names.Plural}, {"singular", names.Singular}, {"kind", names.Kind}, {"listKind", names.ListKind},
	} {
		if name.value == "" {
			errs = append(errs, field.Required(spec.Child("names", name.field), ""))
		}
	}
	return errs
}

func definitionUnchanged(d, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	if !established(old) {
		return nil
	}
	errs := same(d.Spec.Scope, old.Spec.Scope, spec.Child("scope"))
	errs = append(errs, same(d.Spec.Names.Kind, old.Spec.Names.Kind, spec.Child("names", "kind"))...)
	errs = append(errs, same(d.Spec.Group, old.Spec.Group, spec.Child("group"))...)
	return append(errs, same(d.Spec.Names.Plural, old.Spec.Names.Plural, spec.Child("names", "plural"))...)
}

func priorityClassUnchanged(c, old *schedulingv1.PriorityClass) field.ErrorList {
	if c.Value == old.Value {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("value"), "may not be changed in an update.")}
}

func storageClassUnchanged(c, old *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	if !equal(c.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	if c.Provisioner != old.Provisioner {
		errs = append(errs, field.Forbidden(field.NewPath("provisioner"), "updates to provisioner are forbidden."))
	}
	errs = append(errs, same(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	return append(errs, same(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}

func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range d.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

func webhook(name string, config admissionregistrationv1.WebhookClientConfig, at *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(at.Child("name"), name)
	if (config.URL == nil) == (config.Service == nil) {
		errs = append(errs, field.Required(at.Child("clientConfig"), "exactly one of url or service is required"))
	}
	return errs
}
