package csrapprover_test

import (
	"testing"

	. "github.com/onsi/gomega"

	. "github.com/trellis-hub/trellis/controllers/csrapprover"
)

func TestCSR24_Settings(t *testing.T) {
	tests := map[string]struct {
		settings Settings
		home     string
		fault    string
	}{
		"default":                    {Settings{}, "a", ""},
		"the home namespace":         {Settings{MachineNamespace: "a"}, "a", ""},
		"a foreign namespace":        {Settings{MachineNamespace: "b"}, "a", "has to be the home namespace"},
		"none is asked for":          {Settings{WithoutMachines: true}, "a", ""},
		"no home":                    {Settings{}, "", "no home namespace"},
		"no home, a namespace":       {Settings{MachineNamespace: "a"}, "", "has to be the home namespace"},
		"no home, none is asked for": {Settings{WithoutMachines: true}, "", ""},
		"migration":                  {Settings{MigrationUser: true}, "a", ""},
	}
	for name, test := range tests {
		t.Run("CSR-24 "+name, func(t *testing.T) {
			err := test.settings.Validate(test.home)
			if test.fault == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.fault)))
			}
		})
	}
}

func TestRequiredOptions(t *testing.T) {
	_, err := New(Options{})
	NewWithT(t).Expect(err).To(MatchError("controller csr-approver: a required option is missing"))
}
