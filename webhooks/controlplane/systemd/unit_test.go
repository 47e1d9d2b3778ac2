package systemd_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/webhooks/controlplane/systemd"
)

func TestUnits(t *testing.T) {
	g := NewWithT(t)
	options, err := systemd.Parse("; first\n[Unit]\nDescription = a b \n\n[Service]\n# why\n" +
		"ExecStart=/bin/x \\\n  --a=b \\\n  c\nEnv=\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(options).To(Equal([]systemd.Option{
		{Value: "; first"},
		{Section: "Unit", Name: "Description", Value: "a b"},
		{Section: "Service", Value: "# why"},
		{Section: "Service", Name: "ExecStart", Value: "/bin/x \\\n  --a=b \\\n  c"},
		{Section: "Service", Name: "Env"},
	}))
	g.Expect(systemd.Format(options)).To(Equal(
		"; first\n\n[Unit]\nDescription=a b\n\n[Service]\n# why\nExecStart=/bin/x \\\n  --a=b \\\n  c\nEnv=\n"))
}

func TestNoUnits(t *testing.T) {
	for name, text := range map[string]string{
		"an option without a section":   "A=b",
		"a line that is none":           "[S]\nx",
		"an option without a name":      "[S]\n=x",
		"a section that is not closed":  "[S\nA=b",
		"a comment inside of an option": "[S]\nA=b \\\n# c\nd",
		"a name that continues":         "[S]\nA\\\nB=c",
		"more than a unit may have":     "[S]\n" + strings.Repeat("A=b\n", 5000),
		"a unit that is too large":      "[S]\nA=" + strings.Repeat("b", 300<<10),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := systemd.Parse(text)
			NewWithT(t).Expect(err).To(HaveOccurred())
		})
	}
}

func FuzzUnit(f *testing.F) {
	for _, seed := range []string{"[S]\nA=b \\\n c\nD=\\", "[S]\nA=x \\\n\nB=y", "#\n[a]\nb=c\n[a]\n;",
		"[S]\r\nA=b\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g := NewWithT(t)
		options, err := systemd.Parse(text)
		if err != nil {
			return
		}
		again, err := systemd.Parse(systemd.Format(options))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(again).To(Equal(options))
	})
}
