package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// askTime bounds the questions to the source about one request, askAtOnce how many requests it is asked about at a
	// time, and asksPerSecond how often: any client may send tokens.
	askTime       = 10 * time.Second
	askAtOnce     = 10
	asksPerSecond = 20
	// rememberFor is how long an admission counts, refuseFor how long a refusal does, and rememberMost how many of each
	// are kept.
	rememberFor  = time.Minute
	refuseFor    = 10 * time.Second
	rememberMost = 1000
	// knownFor is how long questions about a client that was admitted are kept apart from those about others.
	knownFor = time.Hour
	// maxToken bounds a token, in bytes. Those of service accounts have some two thousand.
	maxToken = 16 << 10
)

// readers decide who may read metrics: clients whose token the source cluster accepts, and to which it
// grants get on the path.
//
// controller-runtime has a filter that does the same. It needs k8s.io/apiserver, and with it packages because of which
// the linker can leave nothing out: the hub would be half as large again.
type readers struct {
	tokens   authenticationclient.TokenReviewInterface
	accesses authorizationclient.SubjectAccessReviewInterface
	clock    clock.PassiveClock

	// By the hash of a token, a verb and a path: until when an admission counts, and the codes of refusals. They are
	// apart, and so are the questions about clients that were admitted before: a client that sends many invalid tokens
	// does not keep Prometheus from its metrics.
	admitted, refused *utilcache.LRUExpireCache
	again, first      chan struct{}
}

// authenticated returns what makes the filter of the metrics server.
func authenticated(c clock.PassiveClock) func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
		config = rest.CopyConfig(config)
		config.QPS, config.Burst, config.RateLimiter = asksPerSecond, asksPerSecond, nil
		tokens, err := authenticationclient.NewForConfigAndClient(config, client)
		if err != nil {
			return nil, fmt.Errorf("client for TokenReviews: %w", err)
		}
		accesses, err := authorizationclient.NewForConfigAndClient(config, client)
		if err != nil {
			return nil, fmt.Errorf("client for SubjectAccessReviews: %w", err)
		}
		return newReaders(tokens.TokenReviews(), accesses.SubjectAccessReviews(), c).filter, nil
	}
}

func newReaders(tokens authenticationclient.TokenReviewInterface,
	accesses authorizationclient.SubjectAccessReviewInterface, c clock.PassiveClock) *readers {
	return &readers{
		tokens: tokens, accesses: accesses, clock: c,
		admitted: utilcache.NewLRUExpireCacheWithClock(rememberMost, c),
		refused:  utilcache.NewLRUExpireCacheWithClock(rememberMost, c),
		again:    make(chan struct{}, askAtOnce), first: make(chan struct{}, askAtOnce),
	}
}

// filter is a metricsserver.Filter.
func (r *readers) filter(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if code := r.judge(request, log); code != http.StatusOK {
			http.Error(w, http.StatusText(code), code)
			return
		}
		next.ServeHTTP(w, request)
	}), nil
}

// judge returns OK if a request may continue, or the code that says why not.
func (r *readers) judge(request *http.Request, log logr.Logger) int {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized
	}
	verb, path := strings.ToLower(request.Method), request.URL.Path
	key := sha256.Sum256([]byte(token + "\x00" + verb + "\x00" + path))
	asking := r.first
	if until, known := r.admitted.Get(key); known {
		if until, is := until.(time.Time); is && r.clock.Now().Before(until) {
			return http.StatusOK
		}
		asking = r.again
	} else if code, known := r.refused.Get(key); known {
		return code.(int) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	select {
	case asking <- struct{}{}:
		defer func() { <-asking }()
	default:
		return http.StatusTooManyRequests
	}
	ctx, cancel := context.WithTimeout(request.Context(), askTime)
	defer cancel()
	code, err := r.ask(ctx, token, verb, path)
	switch {
	case err != nil:
		if request.Context().Err() == nil { // clients that hang up do not fill the log
			log.Error(err, "The source cluster does not say who may read metrics")
		}
		return http.StatusInternalServerError
	case code == http.StatusOK:
		r.admitted.Add(key, r.clock.Now().Add(rememberFor), knownFor)
	default:
		r.admitted.Remove(key)
		r.refused.Add(key, code, refuseFor)
	}
	return code
}

// ask asks the source cluster.
func (r *readers) ask(ctx context.Context, token, verb, path string) (int, error) {
	review, err := r.tokens.Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("reviewing a token: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := review.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}
	access, err := r.accesses.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("reviewing an access: %w", err)
	}
	if !access.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
