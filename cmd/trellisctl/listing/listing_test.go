package listing_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// columns are those of the CRD, as the API server orders them.
var columns = []string{"Name", "Class", "Ready", "Reason", "Applied", "Healthy", "Progressing", "Contested", "Since",
	"Message", "Age"}

// server plays the API server for tables of ManagedResources, with an etcd that forgets a list once.
type server struct {
	mrs      []*resourcesv1alpha1.ManagedResource
	columns  []string
	page     int
	forgets  bool
	answers  func(http.ResponseWriter, *http.Request) bool
	requests []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests = append(s.requests, r.URL.Path+"?"+r.URL.RawQuery)
	if s.answers != nil && s.answers(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	if from > 0 && s.forgets {
		s.forgets = false
		w.WriteHeader(http.StatusGone)
		status := apierrors.NewResourceExpired("it is too old").Status()
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		_ = json.NewEncoder(w).Encode(status)
		return
	}
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ColumnDefinitions: cli.Columns(s.columns...)}
	to := min(len(s.mrs), from+s.page)
	for _, mr := range s.mrs[from:to] {
		e := listing.Of(mr, now)
		cells := map[string]any{"Name": mr.Name, "Class": e.Class, "Ready": e.Ready, "Reason": e.Reason,
			"Applied": e.Applied, "Healthy": e.Healthy,
			"Progressing": e.Progressing, "Contested": e.Contested, "Since": e.Since, "Message": e.Message, "Age": "5d"}
		row := metav1.TableRow{}
		for _, column := range s.columns {
			row.Cells = append(row.Cells, cells[column])
		}
		raw, _ := json.Marshal(map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
			"metadata": mr.ObjectMeta})
		row.Object = runtime.RawExtension{Raw: raw}
		t.Rows = append(t.Rows, row)
	}
	if to < len(s.mrs) {
		t.Continue = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(t)
}

// mrs are ManagedResources in several states.
func mrs() []*resourcesv1alpha1.ManagedResource {
	var all []*resourcesv1alpha1.ManagedResource
	for i := range 7 {
		mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("n%d", i%3),
			Name:              fmt.Sprintf("mr%d", i),
			CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			Labels:            map[string]string{hubv1alpha1.ClusterNameLabel: "c"},
			Annotations:       map[string]string{hubv1alpha1.TargetUIDAnnotation: "uid"}}}
		status, reason := resourcesv1alpha1.ConditionTrue, "Ready"
		switch i {
		case 2:
			mr.Annotations[resourcesv1alpha1.IgnoreAnnotation] = "true"
		case 3:
			status, reason = resourcesv1alpha1.ConditionFalse, "ApplyFailed"
		case 4:
			status, reason = resourcesv1alpha1.ConditionUnknown, "TargetUnreachable"
		case 5:
			mr.Status.Conditions = append(mr.Status.Conditions,
				resourcesv1alpha1.Condition{Type: "Contested", Status: "True"})
		case 6:
			all = append(all, mr)
			continue
		}
		mr.Status.Conditions = append(mr.Status.Conditions, resourcesv1alpha1.Condition{Type: "Ready", Status: status,
			Reason:  reason,
			Message: "why " + mr.Name, LastTransitionTime: metav1.NewTime(now.Add(-10 * time.Minute))},
			resourcesv1alpha1.Condition{Type: "ResourcesApplied", Status: status})
		all = append(all, mr)
	}
	return all
}

// sourceOf is a source whose tables are from a server, and whose whole objects are those of the same server.
func sourceOf(t *testing.T, s *server) *cli.Source {
	t.Helper()
	g := NewWithT(t)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	tables, err := rest.RESTClientForConfigAndClient(&rest.Config{Host: web.URL, APIPath: "/apis",
		ContentConfig: rest.ContentConfig{
			GroupVersion:         &resourcesv1alpha1.GroupVersion,
			NegotiatedSerializer: serializer.NewCodecFactory(cli.Scheme()).WithoutConversion()}}, web.Client())
	g.Expect(err).NotTo(HaveOccurred())
	objects := make([]client.Object, len(s.mrs))
	for i := range s.mrs {
		objects[i] = s.mrs[i].DeepCopy()
	}
	return &cli.Source{WithWatch: fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(objects...).Build(),
		Tables: tables}
}

func TestTablesAndWholeObjectsSayTheSame(t *testing.T) {
	for name, test := range map[string]struct {
		server *server
		pages  int
	}{
		"one page":                 {&server{mrs: mrs(), columns: columns, page: 10}, 1},
		"several pages":            {&server{mrs: mrs(), columns: columns, page: 3}, 3},
		"a list that is forgotten": {&server{mrs: mrs(), columns: columns, page: 3, forgets: true}, 5},
		"one that is forgotten after a page that is no table": {&server{mrs: mrs(), columns: columns, page: 10,
			forgets: true, answers: faultyOnce()}, 3},
		"a CRD without columns of Ready": {&server{mrs: mrs(), columns: []string{"Name", "Class", "Applied", "Age"},
			page: 3}, 2}, // the second one is requested while the first one is decoded
		"an API server without any table": {&server{mrs: mrs(), answers: list}, 1},
		"one that refuses the form":       {&server{mrs: mrs(), answers: notAcceptable}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			source := sourceOf(t, test.server)
			entries, err := listing.ManagedResources(t.Context(), source, listing.Scope{}, now)
			g.Expect(err).NotTo(HaveOccurred())
			source.Tables = nil
			whole, err := listing.ManagedResources(t.Context(), source, listing.Scope{}, now)
			g.Expect(err).NotTo(HaveOccurred())
			for i := range whole {
				whole[i].Created = whole[i].Created.UTC()
				entries[i].Created = entries[i].Created.UTC()
			}
			g.Expect(entries).To(Equal(whole))
			g.Expect(test.server.requests).To(HaveLen(test.pages))

			var order, causes []string
			for _, e := range entries {
				order, causes = append(order, e.Name), append(causes, e.Cause())
			}
			g.Expect(order).To(Equal([]string{"mr3", "mr6", "mr4", "mr5", "mr2", "mr0", "mr1"}), "the worst first")
			g.Expect(causes).To(Equal([]string{"ApplyFailed", "NotSeen", "TargetUnreachable",
				resourcesv1alpha1.ReasonObjectsContested,
				"ManagedResourceIgnored", "", ""}))
		})
	}
}

// faultyOnce answers the first request with a page whose rows cannot be decoded.
func faultyOnce() func(http.ResponseWriter, *http.Request) bool {
	answered := false
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if answered {
			return false
		}
		answered = true
		_, _ = w.Write([]byte(`{"kind":"Table","metadata":{"continue":"3"},"rows":{}}`))
		return true
	}
}

func list(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&resourcesv1alpha1.ManagedResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "ManagedResourceList"},
	})
	return true
}

func notAcceptable(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotAcceptable)
	_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonNotAcceptable, Code: http.StatusNotAcceptable})
	return true
}

func TestScope(t *testing.T) {
	g := NewWithT(t)
	s := &server{mrs: mrs(), columns: columns, page: 10}
	selector, err := labels.Parse("a=b,c")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = listing.ManagedResources(t.Context(), sourceOf(t, s), listing.Scope{Namespace: "n1", Selector: selector},
		now)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.requests).To(ConsistOf(And(
		HavePrefix("/apis/resources.gardener.cloud/v1alpha1/namespaces/n1/managedresources?"),
		ContainSubstring("labelSelector=a%3Db%2Cc"), ContainSubstring("limit=1000"))))
}

func TestErrorsAreThoseOfTheServer(t *testing.T) {
	g := NewWithT(t)
	s := &server{answers: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
			Message: "you may not"})
		return true
	}}
	_, err := listing.ManagedResources(t.Context(), sourceOf(t, s), listing.Scope{}, now)
	g.Expect(err).To(MatchError(ContainSubstring("you may not")))
	g.Expect(cli.ExitCode(err)).To(Equal(cli.ExitRefused))

	s = &server{answers: func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write([]byte(`{"kind":"Table","rows":[` + strings.Repeat("[", 3)))
		return true
	}}
	_, err = listing.ManagedResources(t.Context(), sourceOf(t, s), listing.Scope{}, now)
	g.Expect(err).To(MatchError(ContainSubstring("decoding a table")))
}
