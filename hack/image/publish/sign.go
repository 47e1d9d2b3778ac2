package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

const (
	// simpleSigning is the media type of what cosign signs, signatureAnnotation where it looks for the signature of it.
	simpleSigning       types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation                 = "dev.cosignproject.cosign/signature"
)

// Signer signs manifests in a registry. Make it with LoadKey.
type Signer struct{ key *ecdsa.PrivateKey }

// payload is what is signed, in the form that the containers of Red Hat introduced and cosign took over.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]string `json:"optional"`
}

// Sign signs a manifest that is in its registry already, and returns the name of the signature.
func (s *Signer) Sign(digest name.Digest, options []remote.Option) (string, error) {
	var p payload
	p.Critical.Identity.Reference = digest.Context().Name()
	p.Critical.Image.Digest = digest.DigestStr()
	p.Critical.Type = "cosign container image signature"
	content, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	signature, err := ecdsa.SignASN1(rand.Reader, s.key, sum[:])
	if err != nil {
		return "", err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(content, simpleSigning), MediaType: simpleSigning,
		Annotations: map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signature)},
	})
	if err != nil {
		return "", err
	}
	tag := digest.Context().Tag(strings.ReplaceAll(digest.DigestStr(), ":", "-") + ".sig")
	return tag.Name(), remote.Write(tag, image, options...)
}

// LoadKey reads an ECDSA key on the curve P-256 from a file: one of "cosign generate-key-pair", or a plain one.
func LoadKey(file string, password []byte) (*Signer, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("it is not in PEM")
	}
	der := block.Bytes
	switch block.Type {
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		if der, err = decrypt(der, password); err != nil {
			return nil, err
		}
	case "EC PRIVATE KEY":
		key, err := x509.ParseECPrivateKey(der)
		return newSigner(key, err)
	case "PRIVATE KEY":
	default:
		return nil, fmt.Errorf("%q is no private key", block.Type)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err == nil && !ok {
		err = errors.New("it is no ECDSA key")
	}
	return newSigner(key, err)
}

func newSigner(key *ecdsa.PrivateKey, err error) (*Signer, error) {
	if err == nil && key.Curve != elliptic.P256() {
		err = errors.New("it is not on the curve P-256")
	}
	if err != nil {
		return nil, err
	}
	return &Signer{key: key}, nil
}

// encrypted is a key as cosign keeps it.
type encrypted struct {
	KDF struct {
		Name   string `json:"name"`
		Params struct {
			N int `json:"N"`
			R int `json:"r"`
			P int `json:"p"`
		} `json:"params"`
		Salt []byte `json:"salt"`
	} `json:"kdf"`
	Cipher struct {
		Name  string `json:"name"`
		Nonce []byte `json:"nonce"`
	} `json:"cipher"`
	Ciphertext []byte `json:"ciphertext"`
}

// maxCost bounds what a file may have the key derivation take.
const maxCost = 1 << 20

func decrypt(content, password []byte) ([]byte, error) {
	var e encrypted
	if err := json.Unmarshal(content, &e); err != nil {
		return nil, fmt.Errorf("the encrypted key: %w", err)
	}
	params := e.KDF.Params
	if e.KDF.Name != "scrypt" || e.Cipher.Name != "nacl/secretbox" || len(e.Cipher.Nonce) != 24 ||
		params.N > maxCost || params.R > 64 || params.P > 64 {
		return nil, errors.New("it is not encrypted as cosign does it")
	}
	derived, err := scrypt.Key(password, e.KDF.Salt, params.N, params.R, params.P, 32)
	if err != nil {
		return nil, err
	}
	plain, ok := secretbox.Open(nil, e.Ciphertext, (*[24]byte)(e.Cipher.Nonce), (*[32]byte)(derived))
	if !ok {
		return nil, errors.New("the password is not that of the key; is COSIGN_PASSWORD set?")
	}
	return plain, nil
}
