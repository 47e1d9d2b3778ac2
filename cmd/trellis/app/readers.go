package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// askTime bounds the questions to the source about one request, askAtOnce how many requests it is asked about at a
	// time: anybody may send tokens.
	askTime   = 10 * time.Second
	askAtOnce = 10
	// rememberFor is how long an answer counts, rememberMost how many are kept.
	rememberFor  = time.Minute
	rememberMost = 1000
	// maxToken bounds a token, in bytes. Those of service accounts have some two thousand.
	maxToken = 16 << 10
)

// readers tell who may read metrics: those whose token the source cluster knows, and whom it lets get the path.
//
// controller-runtime has a filter that does the same. It needs k8s.io/apiserver, and with it packages because of which
// the linker can leave nothing out: the hub would be half as large again.
type readers struct {
	tokens   authenticationclient.TokenReviewInterface
	accesses authorizationclient.SubjectAccessReviewInterface
	clock    clock.PassiveClock
	asking   chan struct{}

	mu    sync.Mutex
	known map[[sha256.Size]byte]verdict
}

// verdict is the code of the answer to a token, a verb and a path.
type verdict struct {
	code  int
	until time.Time
}

// authenticated returns what makes the filter of the metrics server.
func authenticated(c clock.PassiveClock) func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
		tokens, err := authenticationclient.NewForConfigAndClient(config, client)
		if err != nil {
			return nil, fmt.Errorf("client for TokenReviews: %w", err)
		}
		accesses, err := authorizationclient.NewForConfigAndClient(config, client)
		if err != nil {
			return nil, fmt.Errorf("client for SubjectAccessReviews: %w", err)
		}
		r := &readers{
			tokens: tokens.TokenReviews(), accesses: accesses.SubjectAccessReviews(), clock: c,
			asking: make(chan struct{}, askAtOnce), known: map[[sha256.Size]byte]verdict{},
		}
		return r.filter, nil
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

// judge returns OK if a request may go on, or the code that says why not.
func (r *readers) judge(request *http.Request, log logr.Logger) int {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized
	}
	verb, path := strings.ToLower(request.Method), request.URL.Path
	key := sha256.Sum256([]byte(token + "\x00" + verb + "\x00" + path))
	if code, ok := r.remembered(key); ok {
		return code
	}
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	default:
		return http.StatusTooManyRequests
	}
	ctx, cancel := context.WithTimeout(request.Context(), askTime)
	defer cancel()
	code, err := r.ask(ctx, token, verb, path)
	if err != nil {
		log.Error(err, "The source cluster does not say who may read metrics")
		return http.StatusInternalServerError
	}
	r.remember(key, code)
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
	access, err := r.accesses.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("reviewing an access: %w", err)
	}
	if !access.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

func (r *readers) remembered(key [sha256.Size]byte) (code int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.known[key]
	return v.code, ok && r.clock.Now().Before(v.until)
}

func (r *readers) remember(key [sha256.Size]byte, code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= rememberMost {
		clear(r.known) // whoever is asked about again costs two questions
	}
	r.known[key] = verdict{code: code, until: r.clock.Now().Add(rememberFor)}
}
