package tokeninvalidator

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var some = types.NamespacedName{Namespace: "ns", Name: "x"}

func TestTI1_SecretsOfServiceAccountsCountWhenTheyComeAndChange(t *testing.T) {
	tests := map[string]struct {
		old, value any
		want       bool
	}{
		"comes":                {nil, secret{account: "a"}, true},
		"changes":              {secret{account: "a"}, secret{account: "a", considered: true}, true},
		"gets the annotation":  {secret{}, secret{account: "a"}, true},
		"loses the annotation": {secret{account: "a"}, secret{}, false},
		"without":              {nil, secret{}, false},
		"changes without":      {secret{}, secret{considered: true}, false},
		"goes":                 {secret{account: "a"}, nil, false},
		"something else":       {nil, account{}, false},
	}
	for name, test := range tests {
		t.Run("TI-1 "+name, func(t *testing.T) {
			NewWithT(t).Expect(aboutSecret(some, test.old, test.value)).To(HaveLen(map[bool]int{true: 1}[test.want]))
		})
	}
}

func TestTI2_ServiceAccountsCountWhenTheirTokensMayBeValidOrNot(t *testing.T) {
	on, off := ptr.To(true), ptr.To(false)
	tests := map[string]struct {
		old, value any
		want       bool
	}{
		"comes":                  {nil, account{automount: off}, false},
		"goes":                   {account{automount: off}, nil, false},
		"automount goes":         {account{automount: on}, account{}, true},
		"automount comes":        {account{}, account{automount: off}, true},
		"automount changes":      {account{automount: on}, account{automount: off}, true},
		"skipped":                {account{}, account{skipped: true}, true},
		"not skipped any more":   {account{skipped: true, skip: "true"}, account{}, true},
		"skipped with a value":   {account{skipped: true}, account{skipped: true, skip: "true"}, true},
		"something else changes": {account{automount: off}, account{automount: ptr.To(false)}, false},
		"something else":         {secret{}, secret{account: "x"}, false},
	}
	for name, test := range tests {
		t.Run("TI-2 "+name, func(t *testing.T) {
			g := NewWithT(t)
			got := aboutAccount(some, test.old, test.value)
			if !test.want {
				g.Expect(got).To(BeEmpty())
				return
			}
			g.Expect(got).To(Equal([]types.NamespacedName{{Namespace: "ns", Name: "serviceaccounts/x"}}))
		})
	}
}

func TestWhatIsKeptOfSecrets(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	tests := map[string]struct {
		meta metav1.ObjectMeta
		want secret
	}{
		"nothing": {},
		"purpose": {metav1.ObjectMeta{Labels: labelled(PurposeLabel)}, secret{purpose: true}},
		"labels":  {metav1.ObjectMeta{Labels: both}, secret{purpose: true, considered: true}},
		"account": {metav1.ObjectMeta{Annotations: annotated("a")}, secret{account: "a"}},
		"version": {metav1.ObjectMeta{ResourceVersion: "17"}, secret{resourceVersion: "17"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(secretOf(&metav1.PartialObjectMetadata{ObjectMeta: test.meta})).To(Equal(test.want))
		})
	}
	kept := secretOf(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: long, Annotations: annotated(long),
	}})
	NewWithT(t).Expect(len(kept.resourceVersion) + len(kept.account)).To(BeNumerically("<", 1000))
}

func annotated(account string) map[string]string {
	return map[string]string{corev1.ServiceAccountNameKey: account}
}

func TestWhatIsKeptOfServiceAccounts(t *testing.T) {
	plain := func(automount any) client.Object {
		return &unstructured.Unstructured{Object: map[string]any{"automountServiceAccountToken": automount}}
	}
	skipped := func(automount any) client.Object {
		object := plain(automount)
		object.SetLabels(map[string]string{SkipLabel: "yes"})
		return object
	}
	tests := map[string]struct {
		object client.Object
		want   account
		reject bool
	}{
		"nothing":      {&unstructured.Unstructured{Object: map[string]any{}}, account{}, false},
		"skipped":      {skipped(false), account{ptr.To(false), true, "yes"}, false},
		"strange":      {skipped("false"), account{nil, true, "yes"}, false},
		"metadata":     {&metav1.PartialObjectMetadata{}, account{}, false},
		"no automount": {plain(false), account{automount: ptr.To(false)}, true},
		"automount":    {plain(true), account{automount: ptr.To(true)}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := accountOf(test.object)
			g.Expect(got).To(Equal(test.want))
			g.Expect(got.rejectsTokens()).To(Equal(test.reject))
		})
	}
}
