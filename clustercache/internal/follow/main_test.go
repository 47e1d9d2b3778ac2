package follow_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(2 * time.Minute)
	goleak.VerifyTestMain(m)
}
