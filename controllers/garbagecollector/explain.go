package garbagecollector

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/apis/references"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// maxUsers is how many objects that refer to something are named.
const maxUsers = 10

// State is what a pass makes of a ConfigMap or a Secret.
type State struct {
	// Labelled is true if it has the label of what may be collected. Otherwise it is never deleted.
	Labelled bool
	// Deleting is true if it is being deleted already.
	Deleting bool
	// From is when it is old enough to be deleted.
	From time.Time
	// Garbage is true if the next pass deletes it, unless something refers to it by then.
	Garbage bool
	// Users are the objects that refer to it, a few of them, and More is how many there are besides.
	Users []User
	More  int
}

// User is an object that refers to another one in its namespace.
type User struct {
	Kind schema.GroupKind
	Name string
}

// Explain looks at a ConfigMap or a Secret (references.KindConfigMap, references.KindSecret) of a target as a pass
// does. It reads metadata only, and writes nothing. lifetime is Options.MinimumLifetime.
func Explain(ctx context.Context, target client.Client, kind string, name types.NamespacedName, lifetime time.Duration,
	now clock.PassiveClock) (*State, error) {
	if _, known := collectable[kind]; !known {
		return nil, fmt.Errorf("objects of kind %q are not collected", kind)
	}
	p := &pass{
		collector: newCollector(Options{MinimumLifetime: &lifetime, Clock: now}),
		target:    multicluster.Look(clustercache.Status{}, target, nil),
		memory:    &memory{after: map[string]string{}}, candidates: candidates{},
	}
	this := candidate{kind, name.Name}
	obj := metadata(name.Namespace, this)
	if err := p.target.Client.Get(ctx, name, obj); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", collectable[kind].Kind, name, err)
	}
	state := &State{
		Labelled: obj.Labels[references.Label] == references.LabelValue, Deleting: obj.DeletionTimestamp != nil,
		From: obj.CreationTimestamp.Add(lifetime),
	}
	err := p.eachReferring(ctx, name.Namespace, func(of schema.GroupVersionKind, user *metav1.PartialObjectMetadata) {
		for one := range named(user) {
			switch {
			case one != this:
			case len(state.Users) == maxUsers:
				state.More++
				return
			default:
				state.Users = append(state.Users, User{of.GroupKind(), user.Name})
				return
			}
		}
	})
	state.Garbage = err == nil && p.isCollectable(obj) && len(state.Users) == 0
	return state, err
}
