package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Kind is what a command is about.
type Kind string

// Kinds, as they are written in commands.
const (
	KindManagedResource Kind = "mr"
	KindCluster         Kind = "cluster"
	// KindAccess are Secrets of the source with a token for a target.
	KindAccess Kind = "access"
	// The kinds below are those of objects of targets.
	KindCSR       Kind = "csr"
	KindNode      Kind = "node"
	KindService   Kind = "service"
	KindConfigMap Kind = "configmap"
	KindSecret    Kind = "secret"
)

// aliases are other names of kinds.
var aliases = map[string]Kind{
	"mr": KindManagedResource, "mrs": KindManagedResource, "managedresource": KindManagedResource,
	"managedresources": KindManagedResource,
	"cluster":          KindCluster, "clusters": KindCluster, "tc": KindCluster, "targetcluster": KindCluster,
	"targetclusters": KindCluster,
	"access":         KindAccess, "accesssecret": KindAccess,
	"csr": KindCSR, "csrs": KindCSR, "certificatesigningrequest": KindCSR, "certificatesigningrequests": KindCSR,
	"node": KindNode, "nodes": KindNode, "no": KindNode,
	"service": KindService, "services": KindService, "svc": KindService,
	"configmap": KindConfigMap, "configmaps": KindConfigMap, "cm": KindConfigMap,
	"secret": KindSecret, "secrets": KindSecret,
}

// namespaced are the kinds of objects of targets that are in a namespace there.
var namespaced = []Kind{KindService, KindConfigMap, KindSecret}

// Subject is what a command is about.
type Subject struct {
	Kind Kind
	// Name of an object of a target may be namespace/name there.
	Name string
	// Namespace is that of the source, if it was given with the name; empty for that of the command line.
	Namespace string
}

// ParseSubject reads "mr NAME" or "mr/NAME".
func ParseSubject(args []string, kinds ...Kind) (Subject, error) {
	subjects, _, err := parseSubjects(args, kinds...)
	if err != nil {
		return Subject{}, err
	}
	if len(subjects) != 1 {
		return Subject{}, Usage("what it is about has to be given as %s", forms(kinds))
	}
	return subjects[0], nil
}

// parseSubjects reads "mr NAME...", "mr/NAME cluster/NAME...", or a kind alone. Names of the source may have their
// namespaces: NAMESPACE/NAME.
func parseSubjects(args []string, kinds ...Kind) (subjects []Subject, kind Kind, err error) {
	if len(args) == 0 || args[0] == "" {
		return nil, "", Usage("what it is about has to be given as %s", forms(kinds))
	}
	word, _, slash := strings.Cut(args[0], "/")
	kind, known := kindOf(word, kinds)
	if !known {
		return nil, "", Usage("%q is no kind that this is about: it has to be given as %s", word, forms(kinds))
	}
	names := args[1:]
	if slash {
		names = args
	}
	for _, name := range names {
		of := kind
		if slash {
			word, rest, _ := strings.Cut(name, "/")
			if of, known = kindOf(word, kinds); !known || rest == "" {
				return nil, "", Usage("%q has to be given as %s, with a slash between the two", name, forms(kinds))
			}
			name = rest
		}
		subject, err := subjectOf(of, name)
		if err != nil {
			return nil, "", err
		}
		subjects = append(subjects, subject)
	}
	return subjects, kind, nil
}

// subjectOf reads one name.
func subjectOf(kind Kind, name string) (Subject, error) {
	if name == "" {
		return Subject{}, Usage("a name is empty: it has to be given as %s", form(kind))
	}
	subject := Subject{Kind: kind, Name: name}
	if slices.Contains(namespaced, kind) {
		if key := subject.Key(); key.Namespace == "" || key.Name == "" {
			return Subject{}, Usage("a %s of a target has to be given with its namespace there: %s", kind, form(kind))
		}
		return subject, nil
	}
	if namespace, name, found := strings.Cut(name, "/"); found {
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			return Subject{}, Usage("%q is neither NAME nor NAMESPACE/NAME", subject.Name)
		}
		subject.Namespace, subject.Name = namespace, name
	}
	return subject, nil
}

// Key is the name of an object of a target. Kinds without a namespace have none.
func (s Subject) Key() client.ObjectKey {
	if namespace, name, found := strings.Cut(s.Name, "/"); found && slices.Contains(namespaced, s.Kind) {
		return client.ObjectKey{Namespace: namespace, Name: name}
	}
	return client.ObjectKey{Name: s.Name}
}

// KindOf returns the kind that arguments begin with: "mr", or "mr/NAME".
func KindOf(args []string, kinds ...Kind) (Kind, error) {
	_, kind, err := parseSubjects(args, kinds...)
	return kind, err
}

// kindOf returns the kind of a word, if it is one of the given kinds. The name of a CRD is accepted as well.
func kindOf(word string, kinds []Kind) (kind Kind, known bool) {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	kind = aliases[word]
	return kind, slices.Contains(kinds, kind)
}

func forms(kinds []Kind) string {
	words := make([]string, 0, len(kinds))
	for _, k := range kinds {
		words = append(words, form(k))
	}
	return strings.Join(words, " or ")
}

func form(kind Kind) string {
	if slices.Contains(namespaced, kind) {
		return string(kind) + " NAMESPACE/NAME"
	}
	return string(kind) + " NAME"
}

// completionTimeout bounds how long a shell waits.
const completionTimeout = 3 * time.Second

// CompleteSubject completes the arguments of ParseSubject.
func (e *Env) CompleteSubject(kinds ...Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			if before, _, slash := strings.Cut(word, "/"); slash {
				return e.slashed(cmd.Context(), before, kinds), cobra.ShellCompDirectiveNoFileComp
			}
			words := make([]string, 0, len(kinds))
			for _, k := range kinds {
				words = append(words, string(k))
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		default:
			if before, _, slash := strings.Cut(word, "/"); slash && strings.Contains(args[0], "/") {
				return e.slashed(cmd.Context(), before, kinds), cobra.ShellCompDirectiveNoFileComp
			}
			if kind, known := kindOf(args[0], kinds); known && !strings.Contains(args[0], "/") {
				return slices.DeleteFunc(e.names(cmd.Context(), kind), func(name string) bool {
					return slices.Contains(args[1:], name)
				}), cobra.ShellCompDirectiveNoFileComp
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// slashed are the names of a kind with the word for the kind before each: "mr/NAME".
func (e *Env) slashed(ctx context.Context, word string, kinds []Kind) []string {
	kind, known := kindOf(word, kinds)
	if !known {
		return nil
	}
	names := e.names(ctx, kind)
	for i := range names {
		names[i] = word + "/" + names[i]
	}
	return names
}

// TakeName has a command take one name.
func TakeName(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return Usage("one NAME has to be given, not %d", len(args))
	}
	return nil
}

// CompleteName completes one name of a kind.
func (e *Env) CompleteName(kind Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return e.names(cmd.Context(), kind), cobra.ShellCompDirectiveNoFileComp
	}
}

// names lists the names of the objects of a kind in the namespace. Errors are ignored, since completion cannot show
// them.
func (e *Env) names(ctx context.Context, kind Kind) []string {
	source, err := e.Source()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	var gvk schema.GroupVersionKind
	options := []client.ListOption{client.InNamespace(source.Namespace)}
	switch kind {
	case KindManagedResource:
		gvk = resourcesv1alpha1.GroupVersion.WithKind("ManagedResource")
	case KindAccess:
		gvk = corev1.SchemeGroupVersion.WithKind("Secret")
		options = append(options,
			client.MatchingLabels{resourcesv1alpha1.PurposeLabel: resourcesv1alpha1.PurposeTokenRequestor})
	case KindCluster:
		gvk = hubv1alpha1.GroupVersion.WithKind("TargetCluster")
	default:
		return nil
	}
	keys, _ := source.Keys(ctx, gvk, nil, options...)
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key.Name
	}
	return names
}

// ManagedResource reads one.
func (s *Source) ManagedResource(ctx context.Context, name string) (*resourcesv1alpha1.ManagedResource, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, mr); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, NotFound("there is no ManagedResource %s in namespace %s", name, s.Namespace)
		}
		return nil, fmt.Errorf("reading ManagedResource %s/%s: %w", s.Namespace, name, err)
	}
	return mr, nil
}

// TargetCluster reads one.
func (s *Source) TargetCluster(ctx context.Context, name string) (*hubv1alpha1.TargetCluster, error) {
	tc := &hubv1alpha1.TargetCluster{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, tc); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, NotFound("there is no TargetCluster %s in namespace %s", name, s.Namespace)
		}
		return nil, fmt.Errorf("reading TargetCluster %s/%s: %w", s.Namespace, name, err)
	}
	return tc, nil
}
