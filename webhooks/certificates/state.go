package certificates

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// phase is how far a rotation is.
type phase string

const (
	stable     phase = "stable"
	publishing phase = "publishing"
	overlap    phase = "overlap"
)

// state is what is in the Secret.
type state struct {
	// serving is the generation whose certificate and key are in use.
	serving *generation
	// next is the one that follows, while the bundle with its authority goes to all targets.
	next *generation
	// previous is the one before, while some targets may still call paths with its key.
	previous *generation
	// overlapUntil is when previous goes, at the earliest.
	overlapUntil time.Time
}

func (s *state) phase() phase {
	switch {
	case s.next != nil:
		return publishing
	case s.previous != nil:
		return overlap
	default:
		return stable
	}
}

// Progress is how far targets have what they need for calls, as the leader knows.
type Progress struct {
	// Pending is how many of those that can be reached do not have it, or are not known to have it.
	Pending int
	// Unreachable is how many may not have it because they cannot be reached.
	Unreachable int
}

// step does what is to be done at a time, and reports whether that has changed something.
func (s *state) step(o *Options, now time.Time, progress Progress) (changed bool, err error) {
	if s.serving == nil {
		s.serving, err = newGeneration(o.Names, now, o.Validity)
		return err == nil, err
	}
	for _, g := range []*generation{s.serving, s.next} {
		if g != nil && !g.hasNames(o.Names) {
			if err := g.issue(o.Names, now); err != nil {
				return false, err
			}
			changed = true
		}
	}
	from, until := s.serving.life()
	all := progress.Pending == 0 && progress.Unreachable == 0
	switch s.phase() {
	case stable:
		if now.Before(from.Add(o.Renewal)) {
			return changed, nil
		}
		s.next, err = newGeneration(o.Names, now, o.Validity)
		if err != nil {
			return changed, err
		}
		if now.After(until) { // no target is left that uses the former certificate
			s.serving, s.next = s.next, nil
		}
		return true, nil
	case publishing:
		published, _ := s.next.life()
		switch {
		case now.After(until):
		case now.Before(published.Add(o.Spread)): // replicas have to have it, too
			return changed, nil
		case all, progress.Pending == 0 && now.After(until.Add(-lastDay)), now.After(until.Add(-lastHour)):
		default:
			return changed, nil
		}
		s.previous, s.serving, s.next = s.serving, s.next, nil
		s.overlapUntil = now.Add(o.Overlap)
		return true, nil
	case overlap:
		_, expired := s.previous.life()
		if now.After(expired) || all && !now.Before(s.overlapUntil) {
			s.previous, s.overlapUntil = nil, time.Time{}
			return true, nil
		}
	}
	return changed, nil
}

// Before the end of an authority, targets that cannot be reached are no longer waited for, and at its end no target is.
const lastDay, lastHour = 24 * time.Hour, time.Hour

// Keys of the Secret. Those of the generation that serves are the usual ones.
const (
	keyAuthority, keyAuthorityKey     = "ca.crt", "ca.key"
	keyCertificate, keyCertificateKey = "tls.crt", "tls.key"
	keyOfPaths                        = "path.key"
	prefixNext, prefixPrevious        = "next-", "previous-"
	keyOverlapUntil                   = "overlap-until"
)

// data is the state as the content of a Secret.
func (s *state) data() map[string][]byte {
	data := map[string][]byte{}
	maps.Copy(data, s.serving.data(""))
	if s.next != nil {
		maps.Copy(data, s.next.data(prefixNext))
	}
	if s.previous != nil {
		maps.Copy(data, s.previous.data(prefixPrevious))
		data[keyOverlapUntil] = []byte(s.overlapUntil.UTC().Format(time.RFC3339))
	}
	return data
}

func (g *generation) data(prefix string) map[string][]byte {
	return map[string][]byte{
		prefix + keyAuthority: g.authority, prefix + keyAuthorityKey: g.authorityKey,
		prefix + keyCertificate: g.certificate, prefix + keyCertificateKey: g.certificateKey,
		prefix + keyOfPaths: g.key,
	}
}

// read reads the state from the content of a Secret.
func read(data map[string][]byte) (*state, error) {
	s := &state{}
	for prefix, into := range map[string]**generation{"": &s.serving, prefixNext: &s.next, prefixPrevious: &s.previous} {
		if _, has := data[prefix+keyOfPaths]; !has {
			continue
		}
		g := &generation{
			authority: data[prefix+keyAuthority], authorityKey: data[prefix+keyAuthorityKey],
			certificate: data[prefix+keyCertificate], certificateKey: data[prefix+keyCertificateKey],
			key: data[prefix+keyOfPaths],
		}
		if len(g.key) < keySize {
			return nil, fmt.Errorf("%s%s is shorter than %d bytes", prefix, keyOfPaths, keySize)
		}
		if _, err := g.parseAuthority(); err != nil {
			return nil, fmt.Errorf("%s%s: %w", prefix, keyAuthority, err)
		}
		if _, err := g.pair(); err != nil {
			return nil, fmt.Errorf("%s%s: %w", prefix, keyCertificate, err)
		}
		*into = g
	}
	if s.serving == nil {
		return nil, errors.New("it has no " + keyOfPaths)
	}
	if s.previous != nil {
		var err error
		if s.overlapUntil, err = time.Parse(time.RFC3339, string(data[keyOverlapUntil])); err != nil {
			return nil, errors.New(keyOverlapUntil + " is no time")
		}
	}
	return s, nil
}
