// Command licences lists the licences of the modules that are compiled into a command, and fails if one is not among
// those that Trellis may be shipped with. "make licences" calls it in the root of the repository.
//
//	licences [-texts FILE] [-sbom FILE] PACKAGE...
//
// # How it works
//
// It asks Go for the packages that the given ones are made of, and looks for the files with licences in their folders, up to that
// of their module. github.com/google/licensecheck, which pkg.go.dev uses as well, says what they are. A file that is not
// almost completely the text of known licences is a fault, as is a module without a licence.
//
// -texts writes all texts into one file, since most licences demand that who ships a binary ships their text. -sbom writes the
// modules as a software bill of materials (SPDX 2.3).
//
// # Trade-offs
//
// Only what is shipped counts, on any of the systems that a release is for: modules of tests and tools do not.
package main
