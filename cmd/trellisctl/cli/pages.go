package cli

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// metadataPage bounds an answer with metadata.
	metadataPage = 500
	// restarts bounds how often a list begins again because the API server forgot its version.
	restarts = 3
)

// Pages reads a list page by page: read gets the token of a page, and returns that of the next one, empty at the end.
// API servers forget the version of a list after some minutes. Then restart is called, and the list begins again.
func Pages(restart func(), read func(token string) (next string, err error)) error {
	token := ""
	for begun := 0; ; {
		next, err := read(token)
		switch {
		case apierrors.IsResourceExpired(err) && begun < restarts:
			begun++
			restart()
			token = ""
			continue
		case err != nil:
			return err
		case next == "":
			return nil
		}
		token = next
	}
}

// Keys are the names of the objects of a kind that are wanted, nil for all. Only metadata is read.
func (s *Source) Keys(ctx context.Context, kind schema.GroupVersionKind,
	wanted func(*metav1.PartialObjectMetadata) bool, options ...client.ListOption) ([]client.ObjectKey, error) {
	var keys []client.ObjectKey
	err := Pages(func() { keys = nil }, func(token string) (string, error) {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		of := append([]client.ListOption{client.Limit(metadataPage), client.Continue(token)}, options...)
		if err := s.List(ctx, page, of...); err != nil {
			return "", err
		}
		for i := range page.Items {
			if wanted == nil || wanted(&page.Items[i]) {
				keys = append(keys, client.ObjectKeyFromObject(&page.Items[i]))
			}
		}
		return page.Continue, nil
	})
	return keys, err
}
