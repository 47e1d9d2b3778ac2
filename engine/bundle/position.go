package bundle

import "fmt"

// Position says where in the Secrets of a ManagedResource something stands.
type Position struct {
	// SecretNamespace and SecretName name the Secret.
	SecretNamespace, SecretName string
	// Key is the key in the Secret's data.
	Key string
	// Index is the number of the document within the key, counted from 1; documents that are empty or hold nothing but
	// comments count. 0 means the key as a whole.
	Index int
	// Item is the number of the item if the document is a list, counted from 1. 0 means the document as a whole.
	Item int
}

// String returns the position as text for people, for instance "document 3 of key data.yaml in Secret garden/addons".
func (p Position) String() string {
	if p.Index == 0 {
		return fmt.Sprintf("key %s in Secret %s/%s", p.Key, p.SecretNamespace, p.SecretName)
	}
	text := fmt.Sprintf("document %d of key %s in Secret %s/%s", p.Index, p.Key, p.SecretNamespace, p.SecretName)
	if p.Item > 0 {
		return fmt.Sprintf("item %d of %s", p.Item, text)
	}
	return text
}

// place is a Position with the index of the Secret instead of its name.
type place struct {
	source int
	key    string
	index  int
	item   int
}

// in returns the position that the place has in the given Secrets.
func (p place) in(sources []Source) Position {
	return Position{
		SecretNamespace: sources[p.source].Namespace,
		SecretName:      sources[p.source].Name,
		Key:             p.key,
		Index:           p.index,
		Item:            p.item,
	}
}
