package fleetsim_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

func TestATargetThatStopsComesBackWithWhatItStored(t *testing.T) {
	for _, c := range []struct {
		name  string
		stop  func(*fleetsim.Target) error
		state fleetsim.State
	}{
		{"killed", (*fleetsim.Target).Stop, fleetsim.Stopped},
		{"hibernated", (*fleetsim.Target).Hibernate, fleetsim.Hibernated},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			target := one(t, fleetsim.Options{})
			v := visit(t, target)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := v.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			w, err := v.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			defer w.Stop()
			host := target.Host()

			g.Expect(c.stop(target)).To(Succeed())
			g.Expect(target.State()).To(Equal(c.state))
			g.Eventually(w.ResultChan(), patience).Should(BeClosed())
			g.Expect(v.hello()).To(Satisfy(utilnet.IsConnectionRefused))

			g.Expect(target.Start()).To(Succeed())
			g.Expect(target.State()).To(Equal(fleetsim.Running))
			g.Expect(target.Host()).To(Equal(host))
			_, err = v.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

func TestAnotherClusterBehindTheSameAddress(t *testing.T) {
	g := NewWithT(t)
	target := one(t, fleetsim.Options{})
	v := visit(t, target)
	before, err := v.identity()
	g.Expect(err).NotTo(HaveOccurred())
	w, err := v.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	g.Expect(target.Connections()).To(Equal(1))
	g.Expect(target.Replace(nil)).To(Succeed())
	g.Expect(target.Connections()).To(BeZero(), "the old one was to another cluster")
	g.Eventually(w.ResultChan(), patience).Should(BeClosed())
	var after string
	g.Eventually(func() (err error) { after, err = v.identity(); return err }, patience).Should(Succeed())
	g.Expect(after).NotTo(Equal(before))
	g.Expect(target.UID()).To(BeEquivalentTo(after))
}

func TestASkewedClockShows(t *testing.T) {
	g := NewWithT(t)
	target := one(t, fleetsim.Options{})
	target.Skew(-3 * time.Hour)
	v := visit(t, target)
	made, err := v.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made.CreationTimestamp.Time).To(BeTemporally("~", time.Now().Add(-3*time.Hour), time.Minute))

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.Host()+"/version", nil)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := httpClient(t, restConfig(t, target)).Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(response.Body.Close()).To(Succeed()) }()
	date, err := http.ParseTime(response.Header.Get("Date"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(date).To(BeTemporally("~", time.Now().Add(-3*time.Hour), time.Minute))
}

func TestAFaultOfOneTargetLeavesTheOthersAlone(t *testing.T) {
	for _, f := range []fault.Fault{
		{Kind: fault.BlackHole}, {Kind: fault.Refuse}, {Kind: fault.Silent}, {Kind: fault.Hang}, {Kind: fault.Status, Code: 500}, {Kind: fault.Reset},
	} {
		t.Run(string(f.Kind), func(t *testing.T) {
			g := NewWithT(t)
			targets := start(t, fleetsim.Options{Targets: 2}).Targets()
			healthy := visit(t, targets[1])
			_, err := targets[0].Faults().Set(f)
			g.Expect(err).NotTo(HaveOccurred())
			config := restConfig(t, targets[0])
			v := connect(t, config)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = v.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
			g.Expect(err).To(HaveOccurred())
			g.Expect(healthy.hello()).To(Succeed())
			_, err = targets[0].Faults().Clear()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.hello()).To(Succeed())
		})
	}
}

func TestTheJournalRecordsWhatFaultsAnswered(t *testing.T) {
	g := NewWithT(t)
	target := one(t, fleetsim.Options{})
	_, err := target.Faults().Set(fault.Fault{Kind: fault.Status, Code: 503, Match: fault.Match{Resources: []string{"namespaces"}}})
	g.Expect(err).NotTo(HaveOccurred())
	v := visit(t, target)
	g.Expect(v.hello()).To(Satisfy(apierrors.IsServiceUnavailable))
	_, err = v.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	codes := map[string]int{}
	for _, count := range target.Journal().Counts() {
		codes[count.Verb+" "+count.Resource] = count.Code
	}
	g.Expect(codes).To(HaveKeyWithValue("get namespaces", 503))
	g.Expect(codes).To(HaveKeyWithValue("list configmaps", 200))
}

func TestTheJournalRecordsRequestsWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   fault.Fault
		arrives bool // at the server, which writes it
	}{
		{"a hang", fault.Fault{Kind: fault.Hang}, false},
		{"latency that the client does not wait for", fault.Fault{Kind: fault.Latency, Delay: metav1.Duration{Duration: time.Hour}}, false},
		{"a reset before the answer", fault.Fault{Kind: fault.Reset}, false},
		{"a reset in the middle of the answer", fault.Fault{Kind: fault.Reset, After: 10}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			target := one(t, fleetsim.Options{})
			v := visit(t, target)
			g.Expect(v.hello()).To(Succeed(), "it is connected")
			_, err := target.Faults().Set(c.fault)
			g.Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err = v.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			g.Expect(err).To(HaveOccurred())
			g.Eventually(func() map[string]int64 {
				requests := map[string]int64{}
				for _, count := range target.Journal().Counts().Verbs("create") {
					requests[fmt.Sprint(count.Resource, " ", count.Code)] += count.Requests
				}
				return requests
			}, patience).Should(Equal(map[string]int64{"configmaps 0": 1}))
			written := 0
			if c.arrives {
				written = 1
			}
			g.Expect(target.Journal().History().Changes).To(HaveLen(written))
		})
	}
}

func TestAWatchThatIsResetCountsOnce(t *testing.T) {
	g := NewWithT(t)
	target := one(t, fleetsim.Options{})
	v := visit(t, target)
	w, err := v.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	_, err = target.Faults().Set(fault.Fault{Kind: fault.Reset, After: 1, Match: fault.Match{Verbs: []string{"watch"}}})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = visit(t, target).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(w.ResultChan(), patience).Should(BeClosed())
	g.Eventually(target.Faults().Struck, patience).Should(HaveKeyWithValue(fault.Reset, uint64(1)))
	g.Eventually(target.Connections, patience).Should(Equal(1), "the watch is over")
	watches := target.Journal().Counts().Verbs("watch")
	g.Expect(watches).To(HaveExactElements(And(HaveField("Code", 200), HaveField("Requests", int64(1)))))
}

func TestResourceVersionsExpire(t *testing.T) {
	g := NewWithT(t)
	target := one(t, fleetsim.Options{})
	v := visit(t, target)
	list, err := v.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = v.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	watch := func() any {
		w, err := v.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return apierrors.ReasonForError(err)
		}
		defer w.Stop()
		e := <-w.ResultChan()
		if e.Type == "ERROR" {
			return apierrors.ReasonForError(apierrors.FromObject(e.Object))
		}
		return e.Type
	}
	g.Expect(watch()).To(BeEquivalentTo("ADDED"))
	target.Server().Compact()
	g.Expect(watch()).To(Equal(metav1.StatusReasonExpired))
}

func TestACRDComesAndGoes(t *testing.T) {
	g := NewWithT(t)
	target := one(t, fleetsim.Options{})
	_, err := target.Faults().Set(fault.Fault{Kind: fault.Hang, Match: fault.Match{Resources: []string{"customresourcedefinitions.*"}}})
	g.Expect(err).NotTo(HaveOccurred())
	crd := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backups.demo.example.org}
spec:
  group: demo.example.org
  scope: Namespaced
  names: {kind: Backup, plural: backups, singular: backup, listKind: BackupList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`), crd)).To(Succeed())
	v := visit(t, target)
	list := func() error {
		return v.CoreV1().RESTClient().Get().AbsPath("/apis/demo.example.org/v1/backups").Do(t.Context()).Error()
	}
	g.Expect(list()).To(Satisfy(apierrors.IsNotFound))
	for range 2 {
		g.Expect(target.AddCRD(t.Context(), crd)).To(Succeed(), "past the fault")
		g.Eventually(list, patience).Should(Succeed())
		g.Expect(target.RemoveCRD(t.Context(), crd.GetName())).To(Succeed())
		g.Eventually(list, patience).Should(Satisfy(apierrors.IsNotFound))
	}
	g.Expect(target.RemoveCRD(t.Context(), crd.GetName())).To(MatchError(ContainSubstring(
		`removing CRD backups.demo.example.org from target-0001: customresourcedefinitions.apiextensions.k8s.io "backups.demo.example.org" not found`)))
	g.Expect(target.AddCRD(t.Context(), &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x"}}})).NotTo(Succeed())
}
