package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// The parts of SPDX 2.3 that are used.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		DataLicense   string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID               string          `json:"SPDXID"`
		Name             string          `json:"name"`
		Version          string          `json:"versionInfo,omitempty"`
		DownloadLocation string          `json:"downloadLocation"`
		LicenseConcluded string          `json:"licenseConcluded"`
		FilesAnalyzed    bool            `json:"filesAnalyzed"`
		References       []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

// SBOM is a software bill of materials of the modules that Trellis is made of. $VERSION and $DATE say of which build;
// an unknown date is the Unix epoch, since there has to be one.
func SBOM(modules []*Module) ([]byte, error) {
	created := os.Getenv("DATE")
	if _, err := time.Parse(time.RFC3339, created); err != nil {
		created = time.Unix(0, 0).UTC().Format(time.RFC3339)
	}
	document := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "trellis-" + os.Getenv("VERSION"),
		Creation: spdxCreation{Created: created, Creators: []string{"Tool: hack/licences"}},
		Packages: []spdxPackage{{
			ID: "SPDXRef-trellis", Name: "github.com/trellis-hub/trellis", Version: os.Getenv("VERSION"), DownloadLocation: "NOASSERTION", LicenseConcluded: "Apache-2.0",
		}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-trellis"}},
	}
	sum := sha256.New()
	for i, module := range modules {
		id := fmt.Sprintf("SPDXRef-module-%d", i)
		fmt.Fprintln(sum, module.Path, module.Version)
		document.Packages = append(document.Packages, spdxPackage{
			ID: id, Name: module.Path, Version: module.Version, DownloadLocation: "NOASSERTION", LicenseConcluded: strings.Join(module.licences, " AND "),
			References: []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + module.Path + "@" + module.Version}},
		})
		document.Relationships = append(document.Relationships, spdxRelationship{"SPDXRef-trellis", "DEPENDS_ON", id})
	}
	document.Namespace = fmt.Sprintf("https://github.com/trellis-hub/trellis/sbom/%s-%x", os.Getenv("VERSION"), sum.Sum(nil)[:8])
	content, err := json.MarshalIndent(document, "", "  ")
	return append(content, '\n'), err
}
