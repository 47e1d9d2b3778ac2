package apidoc_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/reference/apidoc"
)

const source = `// Package v1 is an API.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	other "example.com/other/v1"
)

// Keys.
const (
	// ColourAnnotation, truthy on a Tree, paints it.
	ColourAnnotation = "trees/colour"
	// ColourGreen is what it is without ColourAnnotation.
	ColourGreen = "green"
	// OtherLabel is that of others.
	OtherLabel = other.Label
)

// Types of conditions.
const (
	// ConditionTall reports whether it is tall | large.
	ConditionTall = "Tall"
)

// Reasons of ConditionTall.
const (
	// ReasonOld (Tall True): it had time.
	ReasonOld = "Old"
)

// FinalizerBase is the finalizer.
const FinalizerBase = "trees/finalizer"

// Leaf is not reached from a kind, and not shown.
type Leaf struct {
	// Size is its size.
	Size int ` + "`json:\"size\"`" + `
}

// Tree is a tree,
// of <any> size.
//
// +kubebuilder:object:root=true
type Tree struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `

	// Branches are its branches. Absent means none.
	// +optional
	Branches []Branch ` + "`json:\"branches\"`" + `
	// Kind of tree, by ColourAnnotation.
	Kind Kind ` + "`json:\"kind\"`" + `
	// Age is in years.
	// +kubebuilder:validation:Minimum=1
	Age *int32 ` + "`json:\"age,omitempty\"`" + `
	// Planted is when.
	Planted map[string]metav1.Time ` + "`json:\"planted,omitempty\"`" + `
	// Owner is a person.
	Owner other.Person ` + "`json:\"owner,omitempty\"`" + `
}

// TreeList is a list of trees.
type TreeList struct {
	metav1.TypeMeta ` + "`json:\",inline\"`" + `
}

// Branch is a part of a Tree.
type Branch struct {
	other.Wood ` + "`json:\",inline\"`" + `
	// Length is in metres. Required.
	Length int ` + "`json:\"length\"`" + `
}

// Kind is a kind of tree.
type Kind string

// Kinds of trees.
const (
	// KindOak is an oak.
	KindOak Kind = "Oak"
)
`

func group(t *testing.T) apidoc.Group {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "types.go"), []byte(source), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "types_test.go"), []byte("package v1_test\n"), 0o600)).To(Succeed())
	p, err := apidoc.Read(dir, "trees/v1", map[string]string{"other.Label": "others/label"})
	g.Expect(err).NotTo(HaveOccurred())
	return apidoc.Group{Name: "trees/v1", About: "Trees.", Package: p}
}

func TestTypes(t *testing.T) {
	g := NewWithT(t)
	g.Expect(string(apidoc.Types("Intro.\n", group(t)))).To(HaveSuffix(`
Intro.

## trees/v1

Trees.

### Tree

Tree is a tree, of &lt;any&gt; size.

| field | type | meaning |
|---|---|---|
| ` + "`branches`" + ` | list of [Branch](#branch) | Its branches. Absent means none. |
| ` + "`kind`" + ` | [Kind](#kind) | Of tree, by ` + "`trees/colour`" + `. Required. |
| ` + "`age`" + ` | int32 | In years. At least 1. |
| ` + "`planted`" + ` | map of string to time | When. |
| ` + "`owner`" + ` | Person of other/v1 | A person. |

### Branch

Branch is a part of a Tree.

| field | type | meaning |
|---|---|---|
| (fields of) | Wood of other/v1 |  |
| ` + "`length`" + ` | int | In metres. Required. |

### Kind

Kind is a kind of tree.

| value | meaning |
|---|---|
| ` + "`Oak`" + ` | An oak. |
`))
}

func TestKeys(t *testing.T) {
	NewWithT(t).Expect(string(apidoc.Keys("Intro.\n", group(t)))).To(HaveSuffix(`
| key | effect |
|---|---|
| ` + "`trees/colour`" + ` | Truthy on a Tree, paints it. |
| value ` + "`green`" + ` | What it is without ` + "`trees/colour`" + `. |
| ` + "`others/label`" + ` | That of others. |
| ` + "`trees/finalizer`" + ` | The finalizer. |
`))
}

func TestConditions(t *testing.T) {
	NewWithT(t).Expect(string(apidoc.Conditions("Intro.\n", group(t)))).To(HaveSuffix(`
Types of conditions.

| condition | meaning |
|---|---|
| ` + "`Tall`" + ` | Reports whether it is tall \| large. |

Reasons of ` + "`Tall`" + `.

| reason | meaning |
|---|---|
| ` + "`Old`" + ` | (Tall True): it had time. |
`))
}

func TestWhatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	_, err := apidoc.Read(t.TempDir(), "none/v1", nil)
	g.Expect(err).To(MatchError(ContainSubstring("0 packages")))
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "types.go"), []byte(source), 0o600)).To(Succeed())
	_, err = apidoc.Read(dir, "trees/v1", nil)
	g.Expect(err).To(MatchError(ContainSubstring("the value of other.Label is not known")))
}
