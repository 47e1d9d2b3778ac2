package validation

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func equal(a, b any) bool { return apiequality.Semantic.DeepEqual(a, b) }

func selector(s *metav1.LabelSelector, at *field.Path, kind string, required bool) field.ErrorList {
	if s == nil {
		if required {
			return field.ErrorList{field.Required(at, "")}
		}
		return nil
	}
	errs := metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(at, s, "empty selector is invalid for "+kind))
	}
	return errs
}

// workload checks a template of pods that run for ever.
func workload(s *metav1.LabelSelector, template *corev1.PodTemplateSpec) field.ErrorList {
	at := spec.Child("template")
	errs := matches(s, template, at)
	errs = append(errs, podTemplate(template, at)...)
	if policy := template.Spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("spec", "restartPolicy"), policy, []string{string(corev1.RestartPolicyAlways)}))
	}
	return errs
}

// strategy refuses the parameters of a rolling update beside another strategy.
func strategy(s appsv1.DeploymentStrategy) field.ErrorList {
	if s.Type != appsv1.RecreateDeploymentStrategyType || s.RollingUpdate == nil {
		return nil
	}
	at := spec.Child("strategy", "rollingUpdate")
	return field.ErrorList{field.Forbidden(at, "may not be specified when strategy `type` is '"+string(s.Type)+"'")}
}

func selectorUnchanged(s, old *metav1.LabelSelector) field.ErrorList {
	return same(s, old, spec.Child("selector"))
}

func matches(s *metav1.LabelSelector, template *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	compiled, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || compiled.Empty() || compiled.Matches(labels.Set(template.Labels)) {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`")}
}

func podTemplate(template *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabels(template.Labels, at.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, at.Child("annotations"))...)
	return append(errs, podSpec(&template.Spec, at.Child("spec"))...)
}

func podSpec(s *corev1.PodSpec, at *field.Path) field.ErrorList {
	volumes := sets.New[string]()
	errs := field.ErrorList{}
	for i, v := range s.Volumes {
		errs = append(errs, label(v.Name, volumes, at.Child("volumes").Index(i).Child("name"))...)
	}
	names := sets.New[string]()
	if len(s.Containers) == 0 {
		errs = append(errs, field.Required(at.Child("containers"), ""))
	}
	for i := range s.Containers {
		errs = append(errs, container(&s.Containers[i], names, volumes, at.Child("containers").Index(i))...)
	}
	for i := range s.InitContainers {
		errs = append(errs, container(&s.InitContainers[i], names, volumes, at.Child("initContainers").Index(i))...)
	}
	if s.ServiceAccountName != "" {
		for _, message := range apivalidation.ValidateServiceAccountName(s.ServiceAccountName, false) {
			errs = append(errs, field.Invalid(at.Child("serviceAccountName"), s.ServiceAccountName, message))
		}
	}
	return errs
}

// label checks a name that must be a DNS label of its own.
func label(name string, taken sets.Set[string], at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, message))
	}
	if taken.Has(name) {
		errs = append(errs, field.Duplicate(at, name))
	}
	taken.Insert(name)
	return errs
}

func container(c *corev1.Container, names, volumes sets.Set[string], at *field.Path) field.ErrorList {
	errs := label(c.Name, names, at.Child("name"))
	if c.Image == "" {
		errs = append(errs, field.Required(at.Child("image"), ""))
	}
	ports := sets.New[string]()
	for i, port := range c.Ports {
		if port.Name != "" {
			if ports.Has(port.Name) {
				errs = append(errs, field.Duplicate(at.Child("ports").Index(i).Child("name"), port.Name))
			}
			ports.Insert(port.Name)
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("ports").Index(i).Child("containerPort"), ""))
			continue
		}
		for _, message := range validation.IsValidPortNum(int(port.ContainerPort)) {
			errs = append(errs, field.Invalid(at.Child("ports").Index(i).Child("containerPort"), port.ContainerPort, message))
		}
	}
	for i, variable := range c.Env {
		if variable.Name == "" {
			errs = append(errs, field.Required(at.Child("env").Index(i).Child("name"), ""))
		}
	}
	for i, mount := range c.VolumeMounts {
		at := at.Child("volumeMounts").Index(i)
		switch {
		case mount.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case !volumes.Has(mount.Name):
			errs = append(errs, field.NotFound(at.Child("name"), mount.Name))
		}
		if mount.MountPath == "" {
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		}
	}
	return errs
}

func statefulSetUnchanged(s, old *appsv1.StatefulSet) field.ErrorList {
	changed := s.Spec.DeepCopy()
	changed.Replicas = old.Spec.Replicas
	changed.Template = old.Spec.Template
	changed.UpdateStrategy = old.Spec.UpdateStrategy
	changed.MinReadySeconds = old.Spec.MinReadySeconds
	changed.Ordinals = old.Spec.Ordinals
	changed.RevisionHistoryLimit = old.Spec.RevisionHistoryLimit
	changed.PersistentVolumeClaimRetentionPolicy = old.Spec.PersistentVolumeClaimRetentionPolicy
	if equal(*changed, old.Spec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(spec, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "+
		"'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")}
}

func job(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	errs := podTemplate(&s.Template, at.Child("template"))
	errs = append(errs, restarts(s.Template.Spec.RestartPolicy, at)...)
	if s.Selector == nil {
		errs = append(errs, field.Required(at.Child("selector"), ""))
	}
	return append(errs, matches(s.Selector, &s.Template, at.Child("template"))...)
}

func restarts(policy corev1.RestartPolicy, at *field.Path) field.ErrorList {
	if policy == corev1.RestartPolicyOnFailure || policy == corev1.RestartPolicyNever {
		return nil
	}
	return field.ErrorList{field.NotSupported(at.Child("template", "spec", "restartPolicy"), policy,
		[]string{string(corev1.RestartPolicyOnFailure), string(corev1.RestartPolicyNever)})}
}

func cronJob(c *batchv1.CronJob) field.ErrorList {
	var errs field.ErrorList
	if c.Spec.Schedule == "" {
		errs = append(errs, field.Required(spec.Child("schedule"), ""))
	}
	at := spec.Child("jobTemplate", "spec")
	errs = append(errs, podTemplate(&c.Spec.JobTemplate.Spec.Template, at.Child("template"))...)
	return append(errs, restarts(c.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy, at)...)
}

func jobUnchanged(j, old *batchv1.Job) field.ErrorList {
	var errs field.ErrorList
	if j.Spec.CompletionMode == nil || *j.Spec.CompletionMode != batchv1.IndexedCompletion {
		errs = same(j.Spec.Completions, old.Spec.Completions, spec.Child("completions"))
	}
	errs = append(errs, same(j.Spec.Selector, old.Spec.Selector, spec.Child("selector"))...)
	before := old.Spec.Template
	if old.Spec.Suspend != nil && *old.Spec.Suspend && old.Status.StartTime == nil {
		// What decides where pods run may change until they do.
		before = *before.DeepCopy()
		before.Labels, before.Annotations = j.Spec.Template.Labels, j.Spec.Template.Annotations
		before.Spec.NodeSelector, before.Spec.Tolerations = j.Spec.Template.Spec.NodeSelector, j.Spec.Template.Spec.Tolerations
		before.Spec.SchedulingGates = j.Spec.Template.Spec.SchedulingGates
	}
	errs = append(errs, same(&j.Spec.Template, &before, spec.Child("template"))...)
	errs = append(errs, same(j.Spec.CompletionMode, old.Spec.CompletionMode, spec.Child("completionMode"))...)
	return append(errs, same(j.Spec.PodFailurePolicy, old.Spec.PodFailurePolicy, spec.Child("podFailurePolicy"))...)
}

// replicas checks a number of pods.
func replicas(number *int32) field.ErrorList {
	if number == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*number), spec.Child("replicas"))
}

// updatablePodFields is how kube-apiserver lists what may change in a Pod.
const updatablePodFields = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

func podUnchanged(p, old *corev1.Pod) field.ErrorList {
	if len(p.Spec.Containers) != len(old.Spec.Containers) {
		return field.ErrorList{field.Forbidden(spec.Child("containers"), "pod updates may not add or remove containers")}
	}
	if len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return field.ErrorList{field.Forbidden(spec.Child("initContainers"), "pod updates may not add or remove containers")}
	}
	changed := p.Spec.DeepCopy()
	for i := range changed.Containers {
		changed.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range changed.InitContainers {
		changed.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	changed.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	changed.SchedulingGates = old.Spec.SchedulingGates
	if len(changed.Tolerations) >= len(old.Spec.Tolerations) {
		changed.Tolerations = old.Spec.Tolerations
	}
	if equal(*changed, old.Spec) {
		return nil
	}
	// The difference, which kube-apiserver appends, is left out.
	return field.ErrorList{field.Forbidden(spec, "pod updates may not change fields other than "+updatablePodFields)}
}
