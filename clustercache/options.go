package clustercache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/internal/registration"
	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

// ErrIdentityUndecided is wrapped by errors of Options.VerifyIdentity that only mean that it could not find out: the
// target is then dialled again as if it had been unreachable, instead of being refused.
var ErrIdentityUndecided = errors.New("the identity of the target cluster could not be verified")

// SecretInformers gives access to the informer of registration Secrets. A controller-runtime cache.Cache is one; it
// should be configured with SecretCacheOptions.
type SecretInformers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Limits bound what the hub asks of one target. Zero fields mean those of DefaultLimits.
type Limits struct {
	// QPS and Burst describe the one token bucket that all calls and watches of a target share. Negative: unlimited.
	QPS   float64
	Burst int
	// MaxInFlight bounds the calls that wait for an answer at the same time; watches do not count.
	MaxInFlight int
	// Timeout bounds each call from its sending to the end of the answer; watches only until their answer begins.
	Timeout time.Duration
}

// DefaultLimits are used where Options.Limits leaves fields empty.
var DefaultLimits = Limits{QPS: 100, Burst: 200, MaxInFlight: 32, Timeout: 10 * time.Second}

// Options configures a Cache.
type Options struct {
	// Secrets is where registrations come from. Nil: there are only static targets.
	Secrets SecretInformers
	// Static holds targets that are not registered by a Secret, such as the source cluster. Their keys have no namespace.
	// These configurations come from the operator and may use whatever client-go can do, files included.
	Static map[ClusterKey]*rest.Config
	// MaxRegistrations bounds the registrations of one namespace. The oldest ones are used, and further ones are refused
	// with ReasonQuotaExceeded until one of these is deleted. A registration that is used stays so until the end of the
	// cache. Default 1000.
	MaxRegistrations int
	// read reads a registration Secret. Default registration.Read.
	read func(*corev1.Secret, kubeconfig.Policy) *registration.Registration

	// transitionRefused is called for events that must not happen in a state. Tests fail then. Nil: nothing is.
	transitionRefused func(from State, e stateEvent)

	// VerifyIdentity is called with the UID of the kube-system namespace, after it was read and before anything else is
	// sent to the target. An error refuses the target with ReasonIdentityChanged and the error's message, until the
	// Secret changes or Recheck is called. Nil: the first UID that was seen is the right one.
	VerifyIdentity func(ctx context.Context, cluster ClusterKey, uid types.UID, secretAnnotations map[string]string) error
	// StillNeeded reports whether a consumer still cleans up in a target whose registration is gone. It is called once a
	// second and must answer from memory. Nil: no target is needed.
	StillNeeded func(cluster ClusterKey) bool
	// DrainTimeout bounds how long StillNeeded can keep a connection. Default 5m.
	DrainTimeout time.Duration
	// Limits returns the limits of one target; it is asked when the target connects and on Recheck. Nil: DefaultLimits.
	Limits func(cluster ClusterKey) Limits
	// Asleep reports whether a target is meant to be away. Nothing is sent to it then. It is asked when the target is
	// registered and on Recheck, and must answer from memory. Nil: none ever is.
	Asleep func(cluster ClusterKey) bool
	// Fenced reports whether a call failed because the hub itself did not let it out, as WrapTransport and Dial.WrapConn
	// may do. Such an error says nothing about the target: it is a reason neither to consider it lost nor to stop calling
	// it. Nil: no call fails like that.
	Fenced func(err error) bool
	// Calling is called with the context of each call of a consumer, watches excepted, and what it returns when the call
	// has ended. It must return quickly. Nil: it is not called.
	Calling func(ctx context.Context) (answered func())

	// UserAgent of all calls. Default "trellis".
	UserAgent string
	// WrapTransport, if set, is put around the transport of every connection. It sees each request as it is sent, those of
	// watches and probes included. It is for tracing and for tests.
	WrapTransport func(cluster ClusterKey, next http.RoundTripper) http.RoundTripper
	// Scheme is used by typed clients. Default: that of client-go.
	Scheme *runtime.Scheme

	// Probe says how a dead connection is found.
	Probe ProbeOptions
	// Dial says how connections are opened.
	Dial DialOptions
	// Watch says how watches are opened, and what they may keep.
	Watch WatchOptions
	// Grace says how long a lost connection may be back.
	Grace GraceOptions

	// Clock is replaced in tests.
	Clock clock.WithTickerAndDelayedExecution
	// Logger is used by everything that does not run on behalf of a caller.
	Logger logr.Logger
	// Registerer receives the metrics. Nil: none.
	Registerer prometheus.Registerer
	// TargetHistograms adds histograms of each target to them, of eleven series each.
	TargetHistograms bool
}

// ProbeOptions say how a dead connection is found.
type ProbeOptions struct {
	// Interval is the pause between two probes, Timeout how long one may take, and Failures how many have to fail in a
	// row. Default 5s, 4s and 2. Timeout also bounds the first step of a connection attempt.
	Interval, Timeout time.Duration
	Failures          int
	// Parallel bounds the probes of connected targets, and tries of their new tokens, under way. Default 2048: those of
	// targets that hang take long, and must not keep the others from being asked.
	Parallel int
	// PingInterval is how long a connection may be silent before the other end is asked for a sign of life, PingTimeout
	// how long that may take. It finds sockets whose other end is gone without a word. Default 30s and 15s.
	PingInterval, PingTimeout time.Duration
}

// DialOptions say how connections are opened.
type DialOptions struct {
	// AllowedProxyURLs are the values that proxy-url may have in registrations.
	AllowedProxyURLs []string
	// Addresses says which addresses connections of registrations may go to. It is asked at each dial, after names
	// were resolved, except for the dial to a proxy: that of AllowedProxyURLs, or of the environment. The zero value
	// refuses loopback and other special addresses. It does not concern static targets.
	Addresses addresses.Policy
	resolver  *net.Resolver // replaced in tests
	// WrapConn, if set, is put around each socket that is opened, except for static targets with a dialler of their
	// own. If it fails, the dial fails with its error, and WrapConn has closed the socket.
	WrapConn func(conn net.Conn) (net.Conn, error)

	// Parallel bounds the first steps of connection attempts under way, which is where unreachable targets wait for their
	// timeout. Default 768.
	Parallel int
	// ConnectParallel bounds the connection attempts that got past the first step. One that takes long is no longer
	// counted. Default 64. The targets of one namespace have three quarters of this and of all other bounds on concurrent
	// work at most.
	ConnectParallel int
	// ConnectRate is how many registrations a second are dialled for the first time, so that the start of the hub has
	// few handshakes at once. Those of one namespace have three quarters of it at most. Default 100.
	ConnectRate float64
	// RotateParallel bounds the connections that are built beside the ones that serve, whose watches take their memory
	// twice. Default 16.
	RotateParallel int
	// ConnectTimeout bounds the second step of a connection attempt; Probe.Timeout bounds the first. Default 10s.
	ConnectTimeout time.Duration
	// ResumeTimeout bounds the first step of an attempt to continue with a connection that was lost just now. Default
	// 8s: where packets are dropped each attempt lasts that long and begins a handshake, so shorter ones are not
	// sooner, and cost more.
	ResumeTimeout time.Duration
	// RetryMax is the longest pause between two attempts to reach a target that is down. Default 2s: a target that is
	// back is to be served within 5 s, and to take up many of them takes a while, too.
	RetryMax time.Duration
	// RefusedRetryMax is the longest pause after an answer that says no, such as 401. Default 30s.
	RefusedRetryMax time.Duration
}

// WatchOptions say how watches are opened, and what they may keep.
type WatchOptions struct {
	// ListParallel bounds the lists of all kinds of all targets under way: at the start of the hub, when targets are back,
	// when the history is gone that a watch wanted to continue with. A list that takes long is not counted any longer.
	// Default 50.
	ListParallel int
	// OpenParallel bounds the watches of all targets that are about to continue where they were: when the network is
	// back, all of them are opened again. One that takes long is not counted any longer. Default 100.
	OpenParallel int
	openHold     time.Duration // how long it is counted; default 1s
	// SyncTimeout bounds how long the initial list of a watch may stand still, and how long a rotation waits for the
	// watches of the new connection. Default 60s.
	SyncTimeout time.Duration
	// SilenceTimeout bounds how long an open watch may say nothing, bookmarks included, until it is opened again where it
	// was. Default 3m; negative: for ever.
	SilenceTimeout time.Duration
	// MaxObjects bounds the objects that the watches of one target keep in memory together; ten times as many of a static
	// one, which may hold the objects for all the others. Where there are more, the largest watch is not synced, and tries
	// again, every few minutes in the end. They may take 512 bytes of memory on average, but 24 MiB in any case, and those
	// of all targets of a namespace two and two thirds of that together: objects of 640 KiB of each target do not count to
	// that. Default 50000.
	MaxObjects int
}

// GraceOptions say how long a lost connection may be back.
type GraceOptions struct {
	// Disconnect is how long what a target's watches hold is kept ready after the connection was lost: if the target
	// answers again meanwhile, they continue where they were. Status.InGrace is true for as long. Default 10s;
	// negative: not at all.
	Disconnect time.Duration
	// MassPercent is the share of the connected targets that have to be lost within MassWindow, but at least three, for
	// the hub to suspect its own network. All lost connections are kept then, for MassLimit at most. Default 20, 1m and
	// 5m.
	MassPercent           int
	MassWindow, MassLimit time.Duration
}

func (o Options) withDefaults() (Options, error) {
	for key, config := range o.Static {
		if key.Namespace != "" || key.Name == "" {
			return o, fmt.Errorf("key %q of a static target must have a name and no namespace", key)
		}
		if config == nil || config.Transport != nil {
			return o, fmt.Errorf("static target %q needs a configuration without a transport of its own", key.Name)
		}
	}
	for name, negative := range map[string]bool{
		"Watch.SyncTimeout": o.Watch.SyncTimeout < 0, "Watch.ListParallel": o.Watch.ListParallel < 0,
		"Watch.OpenParallel": o.Watch.OpenParallel < 0, "Watch.MaxObjects": o.Watch.MaxObjects < 0,
		"Dial.ConnectRate": o.Dial.ConnectRate < 0, "Dial.RotateParallel": o.Dial.RotateParallel < 0,
		"MaxRegistrations":   o.MaxRegistrations < 0,
		"Probe.PingInterval": o.Probe.PingInterval < 0, "Probe.PingTimeout": o.Probe.PingTimeout < 0,
	} {
		if negative {
			return o, fmt.Errorf("option %s must not be negative", name)
		}
	}
	setDefault(&o.DrainTimeout, 5*time.Minute)
	setDefault(&o.UserAgent, "trellis")
	setDefault(&o.Probe.Interval, 5*time.Second)
	setDefault(&o.Probe.Timeout, 4*time.Second)
	setDefault(&o.Probe.Failures, 2)
	setDefault(&o.Probe.Parallel, 2048)
	setDefault(&o.Probe.PingInterval, 30*time.Second)
	setDefault(&o.Probe.PingTimeout, 15*time.Second)
	setDefault(&o.Dial.Parallel, 768)
	setDefault(&o.Dial.ConnectParallel, 64)
	setDefault(&o.Dial.ConnectRate, 100)
	setDefault(&o.Watch.ListParallel, 50)
	setDefault(&o.Watch.OpenParallel, 100)
	setDefault(&o.Watch.openHold, time.Second)
	setDefault(&o.Dial.RotateParallel, 16)
	setDefault(&o.Dial.ConnectTimeout, 10*time.Second)
	setDefault(&o.Dial.ResumeTimeout, 8*time.Second)
	setDefault(&o.Dial.RetryMax, 2*time.Second)
	setDefault(&o.Dial.RefusedRetryMax, 30*time.Second)
	setDefault(&o.Grace.Disconnect, 10*time.Second)
	setDefault(&o.Grace.MassPercent, 20)
	setDefault(&o.Grace.MassWindow, time.Minute)
	setDefault(&o.Grace.MassLimit, 5*time.Minute)
	setDefault(&o.Watch.SyncTimeout, time.Minute)
	setDefault(&o.Watch.SilenceTimeout, 3*time.Minute)
	setDefault(&o.Watch.MaxObjects, 50_000)
	setDefault(&o.MaxRegistrations, 1000)
	if o.read == nil {
		o.read = registration.Read
	}
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	if o.Fenced == nil {
		o.Fenced = func(error) bool { return false }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Asleep == nil {
		o.Asleep = func(ClusterKey) bool { return false }
	}
	if o.Limits == nil {
		o.Limits = func(ClusterKey) Limits { return DefaultLimits }
	}
	return o, nil
}

const (
	// objectBytes is what an object that a watch keeps may take on average, about twice of what most objects take.
	// leastBytes is what the objects of a target may take in any case.
	objectBytes = 512
	leastBytes  = 24 << 20
	// freeBytes is what the objects of each target may take whatever the others of its namespace have: those of a usual
	// target.
	freeBytes = 640 << 10
)

// maxKept bounds what the watches of one target keep.
func (o Options) maxKept(cluster ClusterKey) watching.Size {
	most := watching.Size{Objects: o.Watch.MaxObjects, Bytes: max(objectBytes*int64(o.Watch.MaxObjects), leastBytes)}
	if _, static := o.Static[cluster]; static {
		return watching.Size{Objects: 10 * most.Objects, Bytes: 10 * most.Bytes}
	}
	return most
}

// namespaceBytes bounds what the watches of all targets of a namespace keep beyond freeBytes each.
func (o Options) namespaceBytes() int64 { return o.maxKept(ClusterKey{Namespace: "any"}).Bytes / 3 * 8 }

// throttle returns the limits of one target in their effective form.
func (o Options) throttle(cluster ClusterKey, broke func()) *transport.Throttle {
	l := o.Limits(cluster)
	setDefault(&l.QPS, DefaultLimits.QPS)
	setDefault(&l.Burst, DefaultLimits.Burst)
	setDefault(&l.MaxInFlight, DefaultLimits.MaxInFlight)
	setDefault(&l.Timeout, DefaultLimits.Timeout)
	return transport.NewThrottle(l.QPS, l.Burst, l.MaxInFlight, l.Timeout, broke)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// SecretCacheOptions returns the entry for Secrets in the options of the cache that is given as Options.Secrets: it
// holds Secrets with the cluster-name label only, and of them what package kubeconfig needs.
func SecretCacheOptions() cache.ByObject {
	exists, err := labels.NewRequirement(kubeconfig.ClusterNameLabel, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	return cache.ByObject{Label: labels.NewSelector().Add(*exists), Transform: trimSecret}
}

func trimSecret(obj any) (any, error) {
	if secret, ok := obj.(*corev1.Secret); ok {
		registration.Trim(secret)
	}
	return obj, nil
}
