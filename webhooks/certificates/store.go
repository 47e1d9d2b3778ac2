package certificates

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// callTime bounds a call of the source.
const callTime = 10 * time.Second

// Options say what a store is made of. Secret, Names and Client are required.
type Options struct {
	// Secret is where it is kept.
	Secret types.NamespacedName
	// External is a Secret of another program with tls.crt, tls.key and ca.crt, which are used instead. Empty: the hub
	// makes its own.
	External types.NamespacedName
	// Clients is a Secret with the authorities of client certificates, in ca.crt. Empty: there are none.
	Clients types.NamespacedName
	// Names are the names and addresses of the server.
	Names []string
	// Client calls the source. It creates the Secret if there is none, and writes nothing else.
	Client client.Client
	// Validity is that of an authority, Renewal after how long there is the next one, Overlap for how long the former
	// paths are accepted. Defaults: 30 days, 20 days and a day.
	Validity, Renewal, Overlap time.Duration
	// Poll is how often the Secret is read, Check how often it is looked whether something is to be renewed, and Spread
	// after how long all replicas have read something new. Defaults: 10s, 30s and a minute.
	Poll, Check, Spread time.Duration
	Clock               clock.WithTicker // default: the real one
	Logger              logr.Logger
}

// Material is what calls are secured with at a moment. It is not to be changed.
type Material struct {
	// Bundle has the authorities that targets trust, in PEM.
	Bundle []byte
	// Key is that of new paths, Keys are all that are accepted.
	Key  []byte
	Keys [][]byte
	// Hash changes with Bundle and Key: a target with another hash has to be registered again.
	Hash string
	// Expires is when the certificate of the server does, and Phase how far a rotation is: stable, publishing or
	// overlap.
	Expires time.Time
	Phase   string

	certificate *tls.Certificate
}

// Store has the material of a hub. Make it with New.
type Store struct {
	Options

	clients atomic.Pointer[clientAuthorities] // nil: there are none

	mu       sync.Mutex
	material *Material
	changed  chan struct{}
	known    chan struct{} // closed when there is material
}

// New returns a store that knows nothing yet.
func New(o Options) (*Store, error) {
	if o.Secret.Name == "" || len(o.Names) == 0 || o.Client == nil {
		return nil, errors.New("certificates of webhooks: a required option is missing")
	}
	for field, value := range map[*time.Duration]time.Duration{
		&o.Validity: 30 * 24 * time.Hour, &o.Renewal: 20 * 24 * time.Hour, &o.Overlap: 24 * time.Hour,
		&o.Poll: 10 * time.Second, &o.Check: 30 * time.Second, &o.Spread: time.Minute,
	} {
		if *field == 0 {
			*field = value
		}
	}
	if o.Renewal >= o.Validity {
		return nil, errors.New("certificates of webhooks: they have to be renewed before they expire")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Store{Options: o, changed: make(chan struct{}), known: make(chan struct{})}, nil
}

// Known is closed as soon as there is material.
func (s *Store) Known() <-chan struct{} { return s.known }

// Material returns what is in use, and a channel that is closed when that changes. It is nil before Known.
func (s *Store) Material() (*Material, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.material, s.changed
}

// Keys are those that codes of paths may be made with.
func (s *Store) Keys() [][]byte {
	material, _ := s.Material()
	if material == nil {
		return nil
	}
	return material.Keys
}

// Certificate is that of the server, as tls.Config.GetCertificate.
func (s *Store) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	material, _ := s.Material()
	if material == nil {
		return nil, errors.New("the certificate is not known yet")
	}
	return material.certificate, nil
}

// Follow reads the Secret until ctx ends, and makes it if there is none.
func (s *Store) Follow(ctx context.Context) error {
	ticker := s.Clock.NewTicker(s.Poll)
	defer ticker.Stop()
	failed := false
	for {
		err := errors.Join(s.look(ctx), s.lookClients(ctx))
		if err != nil && !failed && ctx.Err() == nil {
			s.Logger.Error(err, "Cannot read what calls of webhooks are secured with")
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// look reads the Secret once.
func (s *Store) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	secret := &corev1.Secret{}
	err := s.Client.Get(ctx, s.Secret, secret)
	if apierrors.IsNotFound(err) {
		if secret, err = s.create(ctx); apierrors.IsAlreadyExists(err) {
			return nil // another replica was faster; the next look shows its Secret
		}
	}
	if err != nil {
		return fmt.Errorf("the Secret %s: %w", s.Secret, err)
	}
	state, err := read(secret.Data)
	if err != nil {
		return fmt.Errorf("the Secret %s: %w", s.Secret, err)
	}
	return s.use(ctx, state)
}

func (s *Store) create(ctx context.Context) (*corev1.Secret, error) {
	state := &state{}
	if _, err := state.step(&s.Options, s.Clock.Now(), Progress{}); err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Secret.Namespace, Name: s.Secret.Name},
		Type:       corev1.SecretTypeOpaque, Data: state.data(),
	}
	err := s.Client.Create(ctx, secret)
	return secret, err //nolint:wrapcheck // the caller says what it was about
}

// use has what is in a state used from now on.
func (s *Store) use(ctx context.Context, from *state) error {
	material, err := from.material()
	if err == nil && s.External.Name != "" {
		err = s.external(ctx, material)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.material
	s.material = material
	if before != nil && before.Hash == material.Hash && before.Phase == material.Phase &&
		bytes.Equal(before.certificate.Certificate[0], material.certificate.Certificate[0]) {
		return nil
	}
	close(s.changed)
	s.changed = make(chan struct{})
	if before == nil {
		close(s.known)
	}
	s.Logger.Info("Calls of webhooks are secured by other keys", "phase", material.Phase, "hash", material.Hash,
		"expires", material.Expires.UTC().Format(time.RFC3339))
	return nil
}

// material is what a state means for the server and for targets.
func (s *state) material() (*Material, error) {
	pair, err := s.serving.pair()
	if err != nil {
		return nil, err
	}
	m := &Material{
		Bundle: bundle(s.serving, s.next, s.previous), Key: s.serving.key, Phase: string(s.phase()),
		Expires: pair.Leaf.NotAfter, certificate: pair,
	}
	for _, g := range []*generation{s.serving, s.next, s.previous} {
		if g != nil {
			m.Keys = append(m.Keys, g.key)
		}
	}
	m.hash()
	return m, nil
}

func (m *Material) hash() {
	// The key itself must not be guessed from it, and it has 256 random bits.
	sum := sha256.Sum256(bytes.Join([][]byte{m.Bundle, m.Key}, []byte{0}))
	m.Hash = hex.EncodeToString(sum[:8])
}

// external puts the certificate of another program in the place of the hub's own.
func (s *Store) external(ctx context.Context, m *Material) error {
	secret := &corev1.Secret{}
	if err := s.Client.Get(ctx, s.External, secret); err != nil {
		return fmt.Errorf("the Secret %s: %w", s.External, err)
	}
	pair, err := parsePair(secret.Data[keyCertificate], secret.Data[keyCertificateKey])
	if err != nil {
		return fmt.Errorf("the Secret %s: %w", s.External, err)
	}
	if _, err := cert.ParseCertsPEM(secret.Data[keyAuthority]); err != nil {
		return fmt.Errorf("the Secret %s: %s has no certificate authority in PEM", s.External, keyAuthority)
	}
	m.certificate, m.Expires, m.Bundle = pair, pair.Leaf.NotAfter, secret.Data[keyAuthority]
	m.hash()
	return nil
}

// Rotate renews what is in the Secret when it is time, until ctx ends. It is for the leader. write calls the source;
// progress returns for how many targets it is not known that they have the material with a hash.
func (s *Store) Rotate(ctx context.Context, write client.Client, progress func(hash string) Progress) error {
	ticker := s.Clock.NewTicker(s.Check)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if err := s.rotate(ctx, write, progress); err != nil && ctx.Err() == nil {
			s.Logger.Error(err, "Cannot renew what calls of webhooks are secured with")
		}
	}
}

func (s *Store) rotate(ctx context.Context, write client.Client, progress func(hash string) Progress) error {
	material, _ := s.Material()
	if material == nil || s.External.Name != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	secret := &corev1.Secret{}
	if err := s.Client.Get(ctx, s.Secret, secret); apierrors.IsNotFound(err) {
		return nil // Follow makes it
	} else if err != nil {
		return fmt.Errorf("the Secret %s: %w", s.Secret, err)
	}
	state, err := read(secret.Data)
	if err != nil {
		return fmt.Errorf("the Secret %s: %w", s.Secret, err)
	}
	now, err := state.material()
	if err != nil {
		return fmt.Errorf("the Secret %s: %w", s.Secret, err)
	}
	changed, err := state.step(&s.Options, s.Clock.Now(), progress(now.Hash))
	if err != nil || !changed {
		return err
	}
	secret.Data = state.data()
	if err := write.Update(ctx, secret); err != nil { // it has the version that was read
		return fmt.Errorf("the Secret %s: %w", s.Secret, err)
	}
	return s.use(ctx, state)
}
