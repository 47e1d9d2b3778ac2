package shoot20_test

import (
	"testing"

	"github.com/trellis-hub/trellis/hack/controlplane"
)

func TestMain(m *testing.M) {
	controlplane.VerifyTestMain(m)
}
