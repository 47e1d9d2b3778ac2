package csrapprover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// Name is that of the controller, for logs and metrics.
const Name = "csr-approver"

// allWorkers is how many requests are worked on at a time. They wait for targets most of the time; with fewer, some
// targets that hang would occupy them all.
const allWorkers = 32

// runTimeout bounds a run: a handful of calls.
const runTimeout = 30 * time.Second

// grace is how long after it was made a request is not denied only because a Node or a Machine is missing: it may be
// written at the same time. A denial is final, and kubelets ask again only after a pause that grows.
const grace = 10 * time.Second

// judgeRate, a second, and judgeBurst bound how often requests of one target are judged, each of which takes lists of
// the source.
const judgeRate, judgeBurst = 10, 50

// maxReported is how many faults are remembered, of all targets, to report each only once.
const maxReported = 256

// Reasons and action of events.
const (
	reasonUnusable = "CertificateSigningRequestUnusable"
	reasonSettings = "CSRApproverSettingsInvalid"
	actionApprove  = "ApproveCertificates"
)

// signers are those whose requests are looked at.
var signers = []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientSignerName}

// watched are the requests of each signer. All that is kept of one is whether it has been decided.
var watched = func() (all []*multicluster.Objects) {
	for _, signer := range signers {
		all = append(all, &multicluster.Objects{
			Kind:          certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
			FieldSelector: fields.OneTermEqualSelector("spec.signerName", signer),
			Fields:        [][]string{{"status", "conditions"}, {"status", "certificate"}},
			Transform:     func(obj client.Object) any { return isDecided(obj) },
			Form:          "whether a CSR is decided",
		})
	}
	return all
}()

// isDecided reports whether the CSR that a watch shows is decided. One that cannot be read counts as undecided: the run
// reads it again.
func isDecided(obj client.Object) bool {
	csr := &certificatesv1.CertificateSigningRequest{}
	content, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(content.UnstructuredContent(), csr) != nil {
		return false
	}
	return decided(csr)
}

// undecided has a request reconciled that is new or has changed, unless it has been decided.
func undecided(name types.NamespacedName, _, value any) []types.NamespacedName {
	if decided, exists := value.(bool); !exists || decided {
		return nil
	}
	return []types.NamespacedName{name}
}

// Options say what the controller is made of.
type Options struct {
	// Environment is that of all controllers in targets. Its Source is not needed.
	Environment multicluster.Environment
	// Source calls the API server of the source. Machines must not come from a cache, for which there would have to be a
	// watch of all Machines. Required.
	Source client.Reader
	// Settings returns those of a target, from memory; false: the controller is switched off there. Required.
	Settings func(clustercache.Status) (Settings, bool)
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc
	// Metrics takes figures. Nil: they are not recorded.
	Metrics *Metrics
}

// New returns a controller that approves and denies nothing until it is started.
func New(options Options) (*multicluster.Controller, error) {
	if options.Source == nil || options.Settings == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	r := &reconciler{
		source: options.Source, settings: options.Settings, metrics: options.Metrics,
		clock: options.Environment.Clock, reported: lru.New(maxReported),
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	builder := multicluster.New(Name, options.Environment).
		EnabledFor(func(status clustercache.Status) bool {
			_, on := options.Settings(status)
			return on
		}).
		WorkersFor(allWorkers, func(status clustercache.Status) int {
			settings, _ := options.Settings(status)
			return settings.ConcurrentSyncs
		}).
		Paced(judgeRate, judgeBurst).
		Timeout(runTimeout)
	var controller *multicluster.Controller
	if options.Follow != nil {
		builder.FollowsSettings(func(
			ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
		) error {
			return options.Follow(ctx, work, func(cluster clustercache.ClusterKey) {
				changed(cluster)
				recheck(controller, cluster)
			})
		})
	}
	for _, objects := range watched {
		builder.Watches(objects, undecided)
	}
	var err error
	controller, err = builder.Complete(r)
	return controller, err //nolint:wrapcheck // it names the controller
}

// recheck has what is not decided judged by other settings.
func recheck(controller *multicluster.Controller, cluster clustercache.ClusterKey) {
	for _, objects := range watched {
		requests, _ := controller.Objects(cluster, objects)
		if requests == nil {
			continue
		}
		requests.Range(func(name types.NamespacedName, value any) bool {
			controller.Enqueue(cluster, undecided(name, nil, value)...)
			return true
		})
	}
}

type reconciler struct {
	source   client.Reader
	settings func(clustercache.Status) (Settings, bool)
	clock    clock.PassiveClock
	metrics  *Metrics
	reported *lru.Cache // the faults that were reported last
}

// Engage implements multicluster.Engager.
func (r *reconciler) Engage(status clustercache.Status) { r.metrics.engage(status.Cluster) }

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) { r.metrics.forget(cluster) }

// Reconcile decides a request, or leaves it alone.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, name types.NamespacedName,
) (reconcile.Result, error) {
	settings, on := r.settings(target.Status)
	if !on {
		return reconcile.Result{}, nil
	}
	if err := settings.Validate(target.Namespace()); err != nil {
		err = fmt.Errorf("settings of the CSR approver for target %s: %w", target.Key(), err)
		r.report(ctx, target, fault{target.Key(), err.Error()}, reasonSettings, err.Error())
		return reconcile.Result{}, err
	}
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := target.Client.Get(ctx, name, csr); err != nil {
		if absent(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading CertificateSigningRequest %s: %w", name.Name, err)
	}
	if decided(csr) || !slices.Contains(signers, csr.Spec.SignerName) {
		return reconcile.Result{}, nil
	}
	result, err := r.work(ctx, target, settings, csr)
	if err == nil {
		return result, nil
	}
	err = fmt.Errorf("CertificateSigningRequest %s: %w", untrusted.Name(csr.Name), err)
	if bad := (*unusableError)(nil); errors.As(err, &bad) {
		r.report(ctx, target, fault{target.Key(), untrusted.Token(string(csr.UID))}, reasonUnusable, err.Error())
	}
	return reconcile.Result{}, err
}

// work judges a request until it can be decided, and decides it.
func (r *reconciler) work(
	ctx context.Context, target *multicluster.Target, settings Settings, csr *certificatesv1.CertificateSigningRequest,
) (reconcile.Result, error) {
	request, err := parse(csr)
	if err != nil {
		return reconcile.Result{}, err
	}
	j := &judge{
		Settings: settings, home: target.Namespace(), source: r.source, target: target.Client,
		spec: &csr.Spec, request: request,
	}
	// A denial is final. One that depends on the Node and the Machines needs a second look at them.
	for look := 1; ; look++ {
		v, err := j.judge(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		if v.missing {
			if pause := r.pause(csr.CreationTimestamp); pause > 0 {
				target.Log.V(1).Info("What is missing may still come", "missing", v.check)
				return reconcile.Result{RequeueAfter: pause}, nil
			}
		}
		switch {
		case v.outcome == noOpinion:
			return reconcile.Result{}, nil
		case v.outcome == approved || !v.live || look > 1:
			return reconcile.Result{}, r.decide(ctx, target, csr, v)
		}
	}
}

// pause returns when to look again at a request for which something is missing; zero if that has been so for long
// enough. The clock of the target may be another one, so the pause is bounded.
func (r *reconciler) pause(created metav1.Time) time.Duration {
	left := grace - r.clock.Since(created.Time)
	if left <= 0 {
		return 0
	}
	return min(max(left/5, time.Second), grace)
}

// decide writes a decision.
func (r *reconciler) decide(
	ctx context.Context, target *multicluster.Target, csr *certificatesv1.CertificateSigningRequest, v decision,
) error {
	condition := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: "RequestApproved", Message: fmt.Sprintf("Approved the request for a %s (all checks passed)", v.kind),
	}
	if v.outcome == denied {
		condition.Type, condition.Reason = certificatesv1.CertificateDenied, "RequestDenied"
		condition.Message = untrusted.Message(fmt.Sprintf("Denied the request for a %s (%s)", v.kind, v.check))
	}
	csr.Status.Conditions = append(csr.Status.Conditions, condition)
	if err := target.Client.SubResource("approval").Update(ctx, csr); err != nil {
		if absent(err) {
			return nil
		}
		return fmt.Errorf("writing the decision %s: %w", v.outcome, err)
	}
	r.metrics.decided(target.Key(), v.outcome, csr.Spec.SignerName)
	target.Log.Info("Decided a CertificateSigningRequest", "decision", v.outcome, "signer", csr.Spec.SignerName,
		"username", untrusted.Name(csr.Spec.Username), "message", condition.Message)
	return nil
}

// fault identifies what was reported.
type fault struct {
	cluster clustercache.ClusterKey
	what    string
}

// report writes one event about a fault, on the TargetCluster. The target has no namespace for it in the source if it
// is not registered there; then there is the log.
func (r *reconciler) report(ctx context.Context, target *multicluster.Target, f fault, reason, message string) {
	if _, known := r.reported.Get(f); known || f.cluster.Namespace == "" || target.Valid() != nil {
		return
	}
	about := &metav1.PartialObjectMetadata{}
	about.SetGroupVersionKind(hubv1alpha1.GroupVersion.WithKind("TargetCluster"))
	if err := r.source.Get(ctx, f.cluster, about); err != nil {
		about.Namespace, about.Name = f.cluster.Namespace, f.cluster.Name // an event without its UID is better than none
	}
	target.Warn(about, reason, actionApprove, untrusted.Message(message))
	r.reported.Add(f, nil)
}
