package controlplane

import (
	"context"
	"testing"
)

// StartForTest starts a control plane that ends with the test, and fails the test if it cannot. Under -short the test
// is skipped: that flag stands for "unit tests only", which need no binaries.
func StartForTest(t testing.TB, options Options) *ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane, skipped by -short")
	}
	if options.Name == "" {
		options.Name = t.Name()
	}
	cp, err := Start(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Stop)
	return cp
}
