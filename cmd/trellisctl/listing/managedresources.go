package listing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

const (
	// tablePageSize and objectPage bound an answer of the API server.
	tablePageSize = 1000
	objectPage    = 250
)

// Scope is what is listed.
type Scope struct {
	// Namespace is empty for all namespaces.
	Namespace string
	// Name selects those of one name; empty for all.
	Name string
	// Selector selects by labels; nil selects everything.
	Selector labels.Selector
}

// ApplyToList implements client.ListOption.
func (s Scope) ApplyToList(options *client.ListOptions) {
	options.Namespace, options.LabelSelector = s.Namespace, s.Selector
	if s.Name != "" {
		options.FieldSelector = s.byName()
	}
}

// byName has the API server select by the name.
func (s Scope) byName() fields.Selector {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name)
}

// ManagedResources lists them, the worst first.
func ManagedResources(ctx context.Context, source *cli.Source, scope Scope, now time.Time) ([]Entry, error) {
	entries, err := inTables(ctx, source, scope)
	if errors.Is(err, errNoTable) {
		entries = nil
		err = WholeManagedResources(ctx, source, scope, func(mr *resourcesv1alpha1.ManagedResource) {
			entries = append(entries, Of(mr, now))
		}, func() { entries = entries[:0] })
	}
	if err != nil {
		return nil, fmt.Errorf("listing ManagedResources: %w", err)
	}
	Sort(entries)
	return entries, nil
}

// WholeManagedResources reads ManagedResources a page at a time. restart is called if the list begins again; what was
// taken before does not count then.
func WholeManagedResources(ctx context.Context, source *cli.Source, scope Scope,
	take func(*resourcesv1alpha1.ManagedResource), restart func()) error {
	return cli.Pages(restart, func(token string) (string, error) {
		page := &resourcesv1alpha1.ManagedResourceList{}
		if err := source.List(ctx, page, scope, client.Limit(objectPage), client.Continue(token)); err != nil {
			return "", err
		}
		for i := range page.Items {
			take(&page.Items[i])
		}
		return page.Continue, nil
	})
}

// Clusters lists TargetClusters.
func Clusters(ctx context.Context, source *cli.Source, scope Scope) ([]hubv1alpha1.TargetCluster, error) {
	var all []hubv1alpha1.TargetCluster
	err := cli.Pages(func() { all = nil }, func(token string) (string, error) {
		page := &hubv1alpha1.TargetClusterList{}
		if err := source.List(ctx, page, scope, client.Limit(objectPage), client.Continue(token)); err != nil {
			return "", err
		}
		for i := range page.Items {
			page.Items[i].ManagedFields = nil
		}
		all = append(all, page.Items...)
		return page.Continue, nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing TargetClusters: %w", err)
	}
	return all, nil
}

// errNoTable says that the API server makes no table of ManagedResources with the columns that are needed.
var errNoTable = errors.New("there is no such table")

// table is what is read of a metav1.Table. The metadata of each row is decoded as far as it is needed.
type table struct {
	Kind              string `json:"kind"`
	ColumnDefinitions []struct {
		Name string `json:"name"`
	} `json:"columnDefinitions"`
	Rows []struct {
		Cells  []any `json:"cells"`
		Object struct {
			Metadata struct {
				Namespace         string       `json:"namespace"`
				Name              string       `json:"name"`
				CreationTimestamp metav1.Time  `json:"creationTimestamp"`
				DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
				Labels            struct {
					Cluster string `json:"cluster.x-k8s.io/cluster-name"`
				} `json:"labels"`
				Annotations struct {
					TargetUID string `json:"hub.gardener.cloud/target-uid"`
					Ignore    string `json:"resources.gardener.cloud/ignore"`
				} `json:"annotations"`
			} `json:"metadata"`
		} `json:"object"`
	} `json:"rows"`
}

// asTable is what is asked for. Servers without tables send the list.
const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json"

// columns are the printer columns of the CRD and where they go.
var columns = map[string]func(*Entry) *string{
	"Class":       func(e *Entry) *string { return &e.Class },
	"Ready":       func(e *Entry) *string { return &e.Ready },
	"Reason":      func(e *Entry) *string { return &e.Reason },
	"Applied":     func(e *Entry) *string { return &e.Applied },
	"Healthy":     func(e *Entry) *string { return &e.Healthy },
	"Progressing": func(e *Entry) *string { return &e.Progressing },
	"Contested":   func(e *Entry) *string { return &e.Contested },
	"Since":       func(e *Entry) *string { return &e.Since },
	"Message":     func(e *Entry) *string { return &e.Message },
}

// inTables lists ManagedResources in table form.
func inTables(ctx context.Context, source *cli.Source, scope Scope) ([]Entry, error) {
	if source.Tables == nil {
		return nil, errNoTable
	}
	var entries []Entry
	var decoding errgroup.Group // of one page, while the API server makes the next one
	restart := func() {
		_ = decoding.Wait() // its error is of the list that ends here
		decoding, entries = errgroup.Group{}, entries[:0]
	}
	err := cli.Pages(restart, func(token string) (string, error) {
		raw, err := tablePage(ctx, source, scope, token)
		if err != nil {
			return "", err
		}
		next, err := continueOf(raw)
		if err != nil {
			return "", err
		}
		if err := decoding.Wait(); err != nil {
			return "", err
		}
		decoding.Go(func() (err error) {
			page := &table{}
			if err := json.Unmarshal(raw, page); err != nil {
				return asDecoding(err)
			}
			entries, err = page.entries(entries)
			return err
		})
		return next, nil
	})
	if failed := decoding.Wait(); failed != nil {
		err = failed
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code == http.StatusNotFound && scope.Namespace == "" {
		return nil, errNoTable // the typed client has a better error for a missing kind
	}
	return entries, err
}

// continueOf is the token of the page after a table, empty at the end.
func continueOf(raw []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	_, err := decoder.Token() // the brace
	for err == nil && decoder.More() {
		var key json.Token
		if key, err = decoder.Token(); err != nil {
			break
		}
		if key == "metadata" { // in a table, it comes before the rows
			list := metav1.ListMeta{}
			err = decoder.Decode(&list)
			return list.Continue, asDecoding(err)
		}
		var skipped json.RawMessage
		err = decoder.Decode(&skipped)
	}
	return "", asDecoding(err)
}

func asDecoding(err error) error {
	if err != nil {
		return fmt.Errorf("decoding a table: %w", err)
	}
	return nil
}

// tablePage reads a page in table form, undecoded.
func tablePage(ctx context.Context, source *cli.Source, scope Scope, token string) ([]byte, error) {
	request := source.Tables.Get().Resource("managedresources").
		NamespaceIfScoped(scope.Namespace, scope.Namespace != "").SetHeader("Accept", asTable).
		Param("limit", fmt.Sprint(tablePageSize))
	if token != "" {
		request.Param("continue", token)
	}
	if scope.Selector != nil && !scope.Selector.Empty() {
		request.Param("labelSelector", scope.Selector.String())
	}
	if scope.Name != "" {
		request.Param("fieldSelector", scope.byName().String())
	}
	result := request.Do(ctx)
	err := result.Error() // with the message of the API server, which Raw does not decode
	if apierrors.IsNotAcceptable(err) || apierrors.ReasonForError(err) == metav1.StatusReasonUnsupportedMediaType {
		return nil, errNoTable
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // ManagedResources does
	}
	return result.Raw() //nolint:wrapcheck // ManagedResources does
}

// entries appends the rows of a page.
func (t *table) entries(entries []Entry) ([]Entry, error) {
	if t.Kind != "Table" {
		return nil, errNoTable
	}
	fields := make([]func(*Entry) *string, len(t.ColumnDefinitions))
	found := 0
	for i := range t.ColumnDefinitions {
		if field := columns[t.ColumnDefinitions[i].Name]; field != nil {
			fields[i] = field
			found++
		}
	}
	if found < len(columns) && len(t.Rows) > 0 {
		return nil, errNoTable
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		m := &row.Object.Metadata
		e := Entry{Namespace: m.Namespace, Name: m.Name, Cluster: m.Labels.Cluster, TargetUID: m.Annotations.TargetUID,
			Suspended: resourcesv1alpha1.IsTruthy(m.Annotations.Ignore), Deleting: m.DeletionTimestamp != nil,
			Created: m.CreationTimestamp.Time}
		for c := range min(len(row.Cells), len(fields)) {
			if text, is := row.Cells[c].(string); is && fields[c] != nil {
				*fields[c](&e) = text
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}
