package tokenrequestor_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/tokenrequestor"
)

type clustercacheKey = clustercache.ClusterKey

// audiencesOf are those that a token says it is for.
func audiencesOf(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims struct {
		Audiences []string `json:"aud"`
	}
	_ = json.Unmarshal(payload, &claims) // none, then
	return claims.Audiences
}

func TestTR1_TR15_TR16_TR34_TimesOfRenewal(t *testing.T) {
	none := func(d time.Duration, _ float64) time.Duration { return d }
	most := func(d time.Duration, factor float64) time.Duration { return d + time.Duration(factor*float64(d)) }
	now := time.Date(2021, 10, 4, 10, 0, 0, 0, time.UTC)
	at := func(hours, minutes, seconds int) time.Duration {
		return time.Duration((hours*60+minutes)*60+seconds) * time.Second
	}
	for _, row := range []struct {
		name               string
		lifetime, from, to time.Duration
	}{
		{"TR-1 the default", at(12, 0, 0), at(9, 36, 0), at(10, 4, 48)},
		{"six hours", at(6, 0, 0), at(4, 48, 0), at(5, 2, 24)},
		{"TR-15 ten minutes", at(0, 10, 0), at(0, 8, 0), at(0, 8, 24)},
		{"TR-16 a hundred hours", at(100, 0, 0), at(19, 12, 0), at(20, 9, 36)},
		{"a minute at least", at(0, 0, 1), at(0, 1, 0), at(0, 1, 0)},
		{"a clock that is late", -at(1, 0, 0), at(0, 1, 0), at(0, 1, 0)},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(RenewIn(now, now.Add(row.lifetime), none)).To(Equal(row.from))
			g.Expect(RenewIn(now, now.Add(row.lifetime), most)).To(Equal(row.to))
		})
	}
	g := NewWithT(t)
	g.Expect(RenewIn(now, time.Time{}, none)).To(Equal(time.Minute), "no expiry at all")
}

func TestTR22_WhatIsRelevant(t *testing.T) {
	for _, row := range []struct {
		name   string
		labels map[string]string
		class  *string
		is     bool
	}{
		{"no label", nil, nil, false},
		{"wrong purpose", map[string]string{PurposeLabel: "other"}, nil, false},
		{"no class is wanted, and none is there", map[string]string{PurposeLabel: Purpose}, nil, true},
		{"no class is wanted, and one is there", map[string]string{PurposeLabel: Purpose, ClassLabel: "any"}, nil, true},
		{"the class", map[string]string{PurposeLabel: Purpose, ClassLabel: "foo"}, ptr.To("foo"), true},
		{"another class", map[string]string{PurposeLabel: Purpose, ClassLabel: "bar"}, ptr.To("foo"), false},
		{"no class", map[string]string{PurposeLabel: Purpose}, ptr.To("foo"), false},
		{"no class, and the empty one is wanted", map[string]string{PurposeLabel: Purpose}, ptr.To(""), false},
		{"the class, wrong purpose", map[string]string{PurposeLabel: "x", ClassLabel: "foo"}, ptr.To("foo"), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: row.labels}}
			NewWithT(t).Expect(Relevant(secret, row.class)).To(Equal(row.is))
		})
	}
}

func TestTR33_UnknownCertificatesClearNothing(t *testing.T) {
	g := NewWithT(t)
	data, err := WithToken(map[string][]byte{KeyKubeconfig: body("")}, "new", true, nil)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.Load(data[KeyKubeconfig])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.AuthInfos["current"].Token).To(Equal("new"))
	g.Expect(config.Clusters["current"].CertificateAuthorityData).To(BeEquivalentTo("current-ca"))

	data, err = WithToken(map[string][]byte{KeyCA: []byte("old")}, "new", true, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(data).NotTo(HaveKey(KeyCA), "certificates of before are not those of the target")
}
