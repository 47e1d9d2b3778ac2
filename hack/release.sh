#!/usr/bin/env bash
# Builds everything that a release consists of into bin/release: the commands for the usual platforms, the image, the chart, the
# licences of what is compiled in, a bill of materials, what is known of vulnerabilities, and checksums of it all.
# Called by `make release`. PLATFORMS are those of the commands.
#
# What is built from a commit is the same wherever the same Go builds it, but for the chart, whose package holds times of files.
set -euo pipefail
cd "$(dirname "$0")/.."

out=bin/release
version=$(hack/stamp.sh version)
ldflags="-s -w $(hack/stamp.sh)"
read -ra platforms <<<"${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}"
rm -rf "$out"
mkdir -p "$out"

for platform in "${platforms[@]}"; do
	os=${platform%/*} arch=${platform#*/} suffix=
	[[ $os == windows ]] && suffix=.exe
	for command in cmd/*/; do
		command=$(basename "$command")
		[[ $command == trellis && $os == windows ]] && continue # the hub runs in clusters
		echo "building $command for $platform" >&2
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=false -ldflags "$ldflags" -o "$out/$command-$os-$arch$suffix" "./cmd/$command"
	done
done

make --no-print-directory licences
cp bin/licences/LICENCES bin/licences/sbom.spdx.json "$out"
make --no-print-directory image
cp bin/image/*.oci.tar "$out"

# The chart names the image of the same build.
go tool -modfile=hack/tools/helm/go.mod helm package charts/trellis --app-version "$version" --destination "$out"

hack/vulncheck/run.sh --if-reachable >"$out/vulnerabilities.txt" 2>&1 || {
	cat "$out/vulnerabilities.txt" >&2
	exit 1
}
cat "$out/vulnerabilities.txt"

(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
ls -l "$out"
