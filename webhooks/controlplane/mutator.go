package controlplane

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// Resource is what a webhook is called for.
type Resource struct {
	// GroupVersionKind of objects. The version AnyVersion stands for all.
	schema.GroupVersionKind
	// Plural is the name of the resource, such as deployments.
	Plural string
	// Subresource is empty for the object itself.
	Subresource string
}

// AnyVersion stands for all versions of a kind.
const AnyVersion = runtime.APIVersionInternal

// Object is what mutators are given: a pointer to a type with metadata, such as *appsv1.Deployment.
type Object[T any] interface {
	*T
	metav1.Object
}

// Mutator changes objects of one kind when they are created or updated. For makes one.
type Mutator struct {
	resource Resource
	// change returns the object before and after it, in JSON, both as the type has it.
	change func(ctx context.Context, c *Context, object, old []byte) (before, after []byte, err error)
}

// Validator accepts or refuses objects of one kind. Validate makes one.
type Validator struct {
	resource Resource
	check    func(ctx context.Context, c *Context, object, old []byte) error
}

// For returns a mutator of a kind. The function changes updated; old is nil if the object is being created. An error
// rejects the object with its text, so it must not have secrets.
func For[T any, O Object[T]](
	resource Resource, mutate func(ctx context.Context, c *Context, updated, old O) error,
) Mutator {
	return Mutator{resource: resource, change: func(
		ctx context.Context, c *Context, object, old []byte,
	) (before, after []byte, err error) {
		decoded, decodedOld, err := decode[T, O](object, old)
		if err != nil {
			return nil, nil, err
		}
		if before, err = json.Marshal(decoded); err != nil {
			return nil, nil, fmt.Errorf("encode the object: %w", err)
		}
		if err := mutate(ctx, c, decoded, decodedOld); err != nil {
			return nil, nil, err
		}
		if after, err = json.Marshal(decoded); err != nil {
			return nil, nil, fmt.Errorf("encode the changed object: %w", err)
		}
		return before, after, nil
	}}
}

// Validate returns a validator of a kind. old is nil if the object is being created, and object is nil if it is being
// deleted. An error rejects the object with its text.
func Validate[T any, O Object[T]](
	resource Resource, validate func(ctx context.Context, c *Context, object, old O) error,
) Validator {
	return Validator{resource: resource, check: func(ctx context.Context, c *Context, object, old []byte) error {
		decoded, decodedOld, err := decode[T, O](object, old)
		if err != nil {
			return err
		}
		return validate(ctx, c, decoded, decodedOld)
	}}
}

// undecodable is an error of the request.
type undecodable struct{ error }

func (u undecodable) Unwrap() error { return u.error }

// decode reads both objects. One that is not there is nil.
func decode[T any, O Object[T]](object, old []byte) (O, O, error) {
	var objects [2]O
	for i, document := range [][]byte{object, old} {
		if len(document) == 0 {
			continue
		}
		objects[i] = new(T)
		if err := extensions.Decode(document, objects[i]); err != nil {
			return nil, nil, undecodable{err}
		}
	}
	return objects[0], objects[1], nil
}
