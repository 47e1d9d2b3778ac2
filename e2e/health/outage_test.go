package health

import (
	"testing"
)

// takeWest is a place in west, which no other test has meanwhile.
func takeWest(t *testing.T) place {
	t.Helper()
	westTaken.Lock()
	t.Cleanup(westTaken.Unlock)
	return newPlaceIn(t, west, west.Kubeconfig())
}
