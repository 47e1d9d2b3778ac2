package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

const (
	version   = "v1.2.3"
	chartPath = "../../../charts/trellis"
	password  = "a password"
)

// must fails the test for an error.
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// startRegistry returns the address of a registry on this machine.
func startRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// image is an OCI layout as hack/image makes it, with images for two architectures, and the digest of their index.
func image(t *testing.T) (directory, digest string) {
	t.Helper()
	directory = t.TempDir()
	index := must(random.Index(1000, 1, 2))(t)
	path := must(layout.Write(directory, empty.Index))(t)
	if err := path.AppendIndex(index); err != nil {
		t.Fatal(err)
	}
	return directory, must(index.Digest())(t).String()
}

func writeKey(t *testing.T, kind string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cosign.key")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// encryptedKey writes a key as "cosign generate-key-pair" does.
func encryptedKey(t *testing.T) (file string, public *ecdsa.PublicKey) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	var e encrypted
	e.KDF.Name, e.KDF.Params.N, e.KDF.Params.R, e.KDF.Params.P = "scrypt", 1<<15, 8, 1
	e.KDF.Salt, e.Cipher.Name, e.Cipher.Nonce = make([]byte, 32), "nacl/secretbox", make([]byte, 24)
	must(rand.Read(e.KDF.Salt))(t)
	must(rand.Read(e.Cipher.Nonce))(t)
	derived := must(scrypt.Key([]byte(password), e.KDF.Salt, 1<<15, 8, 1, 32))(t)
	plain := must(x509.MarshalPKCS8PrivateKey(key))(t)
	e.Ciphertext = secretbox.Seal(nil, plain, (*[24]byte)(e.Cipher.Nonce), (*[32]byte)(derived))
	return writeKey(t, "ENCRYPTED SIGSTORE PRIVATE KEY", must(json.Marshal(e))(t)), &key.PublicKey
}

func TestPublish(t *testing.T) {
	to := startRegistry(t) + "/team"
	directory, digest := image(t)
	key, public := encryptedKey(t)
	published, err := Publish(t.Context(), Options{
		Registry: "oci://" + to + "/", Layout: directory, Chart: chartPath, Version: version,
		Key: key, Password: []byte(password),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(published) != 2 || published[0].Name != to+"/trellis:"+version || published[0].Digest != digest {
		t.Fatalf("published %v, the image is %s", published, digest)
	}
	index := must(remote.Index(must(name.NewTag(published[0].Name))(t)))(t)
	if got := must(index.IndexManifest())(t); len(got.Manifests) != 2 {
		t.Errorf("the image has %d architectures", len(got.Manifests))
	}
	files := chartFiles(t, published[1])
	for _, line := range []string{"  repository: " + to + "/trellis\n", "  digest: " + digest + "\n"} {
		if !strings.Contains(files["trellis/values.yaml"], line) {
			t.Errorf("values.yaml of the chart has no line %q", line)
		}
	}
	if !strings.Contains(files["trellis/Chart.yaml"], "appVersion: "+version+"\n") {
		t.Errorf("Chart.yaml is %s", files["trellis/Chart.yaml"])
	}
	for file := range files {
		if strings.HasSuffix(file, ".go") {
			t.Errorf("the chart has %s", file)
		}
	}
	for _, p := range published {
		verify(t, p, public)
	}

	// Once more, as after a build that failed half way: nothing is in the way.
	again := Options{Registry: to, Layout: directory, Chart: chartPath, Version: version}
	if _, err := Publish(t.Context(), again); err != nil {
		t.Error(err)
	}
}

// chartFiles are the files of a chart in a registry, which has the media types that Helm asks for.
func chartFiles(t *testing.T, p Published) map[string]string {
	t.Helper()
	chart := must(remote.Image(must(name.NewTag(p.Name))(t)))(t)
	manifest := must(chart.Manifest())(t)
	if manifest.Config.MediaType != chartConfig || len(manifest.Layers) != 1 ||
		manifest.Layers[0].MediaType != chartContent {
		t.Fatalf("the manifest of the chart is %v", manifest)
	}
	if got := must(chart.Digest())(t).String(); got != p.Digest {
		t.Errorf("the digest of the chart is %s, and not %s", got, p.Digest)
	}
	layer := must(must(chart.Layers())(t)[0].Compressed())(t)
	defer func() { _ = layer.Close() }()
	archive := tar.NewReader(must(gzip.NewReader(layer))(t))
	files := map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(must(io.ReadAll(archive))(t))
	}
}

// verify does what "cosign verify --key" does.
func verify(t *testing.T, p Published, public *ecdsa.PublicKey) {
	t.Helper()
	if !strings.HasSuffix(p.Signature, ":"+strings.ReplaceAll(p.Digest, ":", "-")+".sig") {
		t.Fatalf("the signature of %s is %s", p.Digest, p.Signature)
	}
	signature := must(remote.Image(must(name.NewTag(p.Signature))(t)))(t)
	manifest := must(signature.Manifest())(t)
	if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != simpleSigning {
		t.Fatalf("the manifest of the signature is %v", manifest)
	}
	layer := must(must(signature.Layers())(t)[0].Compressed())(t)
	defer func() { _ = layer.Close() }()
	content := must(io.ReadAll(layer))(t)
	sum := sha256.Sum256(content)
	signed := must(base64.StdEncoding.DecodeString(manifest.Layers[0].Annotations[signatureAnnotation]))(t)
	if !ecdsa.VerifyASN1(public, sum[:], signed) {
		t.Error("the signature is not that of the key")
	}
	var text payload
	if err := json.Unmarshal(content, &text); err != nil {
		t.Fatal(err)
	}
	repository, _, _ := strings.Cut(p.Signature, ":sha256-")
	if text.Critical.Image.Digest != p.Digest || text.Critical.Identity.Reference != repository {
		t.Errorf("what is signed is %s", content)
	}
}

// Helm renders the chart from the registry, with the image that is there, too.
func TestHelmFindsTheChart(t *testing.T) {
	to := startRegistry(t)
	directory, digest := image(t)
	published, err := Publish(t.Context(), Options{Registry: to, Layout: directory, Chart: chartPath, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	repository, tag, _ := strings.Cut(strings.TrimPrefix(published[1].Name, to), ":")
	helm := exec.CommandContext(t.Context(), "go", "-C", "../../..", "tool", "-modfile=hack/tools/helm/go.mod", "helm",
		"template", "trellis", "oci://"+to+repository, "--version", tag, "--plain-http")
	home := t.TempDir()
	helm.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull,
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := helm.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "image: " + to + "/trellis:" + version + "@" + digest + "\n"; !strings.Contains(string(out), want) {
		t.Errorf("no pod has the %s", want)
	}
}

func TestKeys(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	larger := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	other := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	cosign, _ := encryptedKey(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for title, test := range map[string]struct{ file, password, says string }{
		"of cosign":               {cosign, password, ""},
		"plain":                   {writeKey(t, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))(t)), "", ""},
		"plain, as OpenSSL does":  {writeKey(t, "EC PRIVATE KEY", must(x509.MarshalECPrivateKey(key))(t)), "", ""},
		"with another password":   {cosign, "another", "COSIGN_PASSWORD"},
		"on another curve":        {writeKey(t, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(larger))(t)), "", "P-256"},
		"of another kind":         {writeKey(t, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(other))(t)), "", "ECDSA"},
		"public":                  {writeKey(t, "PUBLIC KEY", nil), "", "no private key"},
		"no key at all":           {garbage, "", "PEM"},
		"encrypted differently":   {writeKey(t, "ENCRYPTED SIGSTORE PRIVATE KEY", []byte("{}")), "", "as cosign does"},
		"a file that there isn't": {filepath.Join(t.TempDir(), "none"), "", "no such file"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := LoadKey(test.file, []byte(test.password))
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestWhatCannotBePublished(t *testing.T) {
	to := startRegistry(t)
	directory, _ := image(t)
	for title, test := range map[string]struct {
		options Options
		says    string
	}{
		"without a registry": {Options{Layout: directory, Chart: chartPath, Version: version}, "required"},
		"without an image": {
			Options{Registry: to, Layout: t.TempDir(), Chart: chartPath, Version: version}, `"make image"`},
		"what is no chart": {
			Options{Registry: to, Layout: directory, Chart: t.TempDir(), Version: version}, "no chart of Trellis"},
		"with a bad name": {
			Options{Registry: to + "/UPPER", Layout: directory, Chart: chartPath, Version: version}, "image:"},
	} {
		t.Run(title, func(t *testing.T) {
			if _, err := Publish(t.Context(), test.options); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
