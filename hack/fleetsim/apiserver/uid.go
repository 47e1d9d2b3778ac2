package apiserver

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"

	"github.com/google/uuid"
)

// uids makes the uids of a server. Without a source they are random.
type uids struct {
	mu     sync.Mutex
	random *rand.ChaCha8
}

func (u *uids) next() uuid.UUID {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.random == nil {
		return uuid.New()
	}
	return draw(u.random)
}

// seeded returns a source for one purpose, so that what is loaded and what is created have different uids if their seeds are the same.
func seeded(purpose byte, seed int64) *rand.ChaCha8 {
	key := [32]byte{31: purpose}
	binary.LittleEndian.PutUint64(key[:], uint64(seed))
	return rand.NewChaCha8(key)
}

// draw makes a UUID of version 4 of the next random bytes.
func draw(random *rand.ChaCha8) (uid uuid.UUID) {
	_, _ = random.Read(uid[:]) // never fails
	uid[6], uid[8] = uid[6]&0x0f|0x40, uid[8]&0x3f|0x80
	return uid
}
