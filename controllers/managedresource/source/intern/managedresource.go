package intern

import (
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// ManagedResource interns the texts and maps of a ManagedResource that is not shared yet, and cuts its lists to their
// length. Its maps must not be changed from then on; a deep copy has maps of its own.
//
// Texts that differ between any two ManagedResources, such as UIDs, are left as they are.
func (t *Table) ManagedResource(mr *resourcesv1alpha1.ManagedResource) {
	mr.Kind, mr.APIVersion = t.Text(mr.Kind), t.Text(mr.APIVersion)
	mr.Namespace, mr.Name = t.Text(mr.Namespace), t.Text(mr.Name)
	mr.Labels = t.Map(mr.Labels)
	if mr.Annotations != nil {
		annotations := make(map[string]string, len(mr.Annotations))
		for name, value := range mr.Annotations {
			annotations[t.Text(name)] = value
		}
		mr.Annotations = annotations
	}
	for i, f := range mr.Finalizers {
		mr.Finalizers[i] = t.Text(f)
	}
	if mr.Spec.Class != nil {
		*mr.Spec.Class = t.Text(*mr.Spec.Class)
	}
	mr.Spec.InjectLabels = t.Map(mr.Spec.InjectLabels)
	for i := range mr.Status.Conditions {
		c := &mr.Status.Conditions[i]
		c.Type, c.Status = resourcesv1alpha1.ConditionType(t.Text(string(c.Type))),
			resourcesv1alpha1.ConditionStatus(t.Text(string(c.Status)))
		c.Reason, c.Message = t.Text(c.Reason), t.Text(c.Message)
	}
	// A decoder allocates up to twice as many entries.
	resources := make([]resourcesv1alpha1.ObjectReference, len(mr.Status.Resources))
	copy(resources, mr.Status.Resources)
	for i := range resources {
		r := &resources[i]
		r.APIVersion, r.Kind = t.Text(r.APIVersion), t.Text(r.Kind)
		r.Namespace, r.Name = t.Text(r.Namespace), t.Text(r.Name)
		r.Labels, r.Annotations = t.Map(r.Labels), t.Map(r.Annotations)
	}
	if mr.Status.Resources != nil {
		mr.Status.Resources = resources
	}
}
