package extensionvalidation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// kind is one that is validated.
type kind struct {
	name, plural string
	namespaced   bool
	// faults are those of an object.
	faults func(*stored) (field.ErrorList, error)
	// immutable are those of fields that have changed and must not. It is given two specs.
	immutable func(object, old json.RawMessage) (field.ErrorList, error)
}

// kinds are all of them, by the names of their resources.
var kinds = []kind{
	of("BackupBucket", "backupbuckets", false, backupBucket, func(b *extensions.BackupBucketSpec) []immutable {
		return []immutable{{"type", b.Type}, {"region", b.Region}}
	}),
	of("BackupEntry", "backupentries", false, backupEntry, func(b *extensions.BackupEntrySpec) []immutable {
		return []immutable{{"type", b.Type}}
	}),
	of("Bastion", "bastions", true, bastion, func(b *extensions.BastionSpec) []immutable {
		return []immutable{{"type", b.Type}, {"userData", secret(b.UserData)}}
	}),
	of("ContainerRuntime", "containerruntimes", true, containerRuntime,
		func(c *extensions.ContainerRuntimeSpec) []immutable {
			return []immutable{{"type", c.Type}, {"workerPool.name", c.WorkerPool.Name}}
		}),
	of("ControlPlane", "controlplanes", true, controlPlane, func(c *extensions.ControlPlaneSpec) []immutable {
		return []immutable{{"type", c.Type}, {"region", c.Region}}
	}),
	of("DNSRecord", "dnsrecords", true, dnsRecord, func(d *extensions.DNSRecordSpec) []immutable {
		return []immutable{{"type", d.Type}, {"name", d.Name}, {"recordType", d.RecordType}}
	}),
	of("Extension", "extensions", true, extension, func(e *extensions.ExtensionSpec) []immutable {
		return []immutable{{"type", e.Type}}
	}),
	of("Infrastructure", "infrastructures", true, infrastructure, func(i *extensions.InfrastructureSpec) []immutable {
		return []immutable{{"type", i.Type}, {"region", i.Region}}
	}),
	networks(),
	operatingSystemConfigs(),
	of("SelfHostedShootExposure", "selfhostedshootexposures", true, exposure,
		func(s *extensions.SelfHostedShootExposureSpec) []immutable { return []immutable{{"type", s.Type}} }),
	of("Worker", "workers", true, worker, func(w *extensions.WorkerSpec) []immutable {
		return []immutable{{"type", w.Type}, {"region", w.Region}}
	}),
}

func kindOf(k metav1.GroupVersionKind) *kind {
	if k.Group != extensions.Group || k.Version != extensions.Version {
		return nil
	}
	at := slices.IndexFunc(kinds, func(known kind) bool { return known.name == k.Kind })
	if at < 0 {
		return nil
	}
	return &kinds[at]
}

// immutable is a field that must not change, by its path in the spec.
type immutable struct {
	path  string
	value any
}

// secret is a value that no message has.
type secret string

// of returns a kind whose spec is of a type. rules is given the namespace of the object, too.
func of[S any](
	name, plural string, namespaced bool, rules func(spec *S, namespace string, path *field.Path) field.ErrorList,
	fixed func(spec *S) []immutable,
) kind {
	return kind{
		name: name, plural: plural, namespaced: namespaced,
		faults: func(object *stored) (field.ErrorList, error) {
			spec, err := decode[S](object.Spec)
			if err != nil {
				return nil, err
			}
			return rules(spec, object.Namespace, field.NewPath("spec")), nil
		},
		immutable: func(object, old json.RawMessage) (field.ErrorList, error) {
			spec, err := decode[S](object)
			if err != nil {
				return nil, err
			}
			oldSpec, err := decode[S](old)
			if err != nil {
				return nil, err
			}
			return changes(fixed(spec), fixed(oldSpec)), nil
		},
	}
}

func decode[T any](document json.RawMessage) (*T, error) {
	into := new(T)
	if len(document) == 0 {
		return into, nil
	}
	if err := json.Unmarshal(document, into); err != nil {
		return nil, fmt.Errorf("decode a part of the object: %w", err)
	}
	return into, nil
}

// changes are the faults of fields that differ.
func changes(fields, old []immutable) (faults field.ErrorList) {
	for i, f := range fields {
		if f.value != old[i].value {
			faults = append(faults, field.Invalid(field.NewPath("spec", f.path), shown(f.value), "field is immutable"))
		}
	}
	return faults
}

// shown is a value as messages have it.
func shown(value any) string {
	if _, is := value.(secret); is {
		return "(not shown)"
	}
	return untrusted.Name(fmt.Sprint(value))
}

// required has a fault for each path whose value is empty.
func required(path *field.Path, fields ...[2]string) (faults field.ErrorList) {
	for _, f := range fields {
		if f[1] == "" {
			faults = append(faults, field.Required(path.Child(f[0]), "field is required"))
		}
	}
	return faults
}

func secretRef(path *field.Path, ref corev1.SecretReference) field.ErrorList {
	return required(path.Child("secretRef"), [2]string{"name", ref.Name})
}

// oneOf has a fault if a value is none of those allowed.
func oneOf(path *field.Path, value string, allowed ...string) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, untrusted.Name(value), allowed)}
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return all
}

func sorted(names []string, most int) []string {
	slices.Sort(names)
	return names[:min(len(names), most)]
}
