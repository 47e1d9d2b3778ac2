#!/usr/bin/env bash
# Builds everything that a release consists of into bin/release: the commands for the usual platforms, the image, the chart, the
# licences of what is compiled in, a bill of materials, what is known of vulnerabilities, and checksums of it all.
# Called by `make release`. PLATFORMS are those of the commands, GO is the Go to build with.
#
# What is built from a commit is the same to the last byte wherever the same Go builds it. Needs GNU tar and coreutils.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022

go=${GO:-go}
out=bin/release
version=$(hack/stamp.sh version)
build="$version (commit $(hack/stamp.sh commit) of $(hack/stamp.sh date)"
date=$(hack/stamp.sh date)
[[ $date != unknown ]] || date=@0
ldflags="-s -w $(hack/stamp.sh)"
read -ra platforms <<<"${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
rm -rf "$out"
mkdir -p "$out"

echo "Trellis $build)"
make --no-print-directory licences
cp bin/licences/LICENCES bin/licences/sbom.spdx.json "$out"

# Whatever the environment says of processors and experiments, the commands are for all of a platform. Most licences demand that
# their texts go with what is compiled.
environment=(CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFLAGS=)
for platform in "${platforms[@]}"; do
	os=${platform%/*} arch=${platform#*/} suffix=
	[[ $os == windows ]] && suffix=.exe
	for command in cmd/*/; do
		command=$(basename "$command")
		[[ $command == trellis && $os == windows ]] && continue # the hub runs in clusters
		echo "building $command for $platform" >&2
		rm -rf "$stage/$command"
		mkdir "$stage/$command"
		env "${environment[@]}" GOOS="$os" GOARCH="$arch" "$go" build -trimpath -buildvcs=false -ldflags "$ldflags" -o "$stage/$command/$command$suffix" "./cmd/$command"
		install -m 644 LICENSE bin/licences/LICENCES "$stage/$command"
		tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="$date" -C "$stage/$command" -c . |
			gzip -9n >"$out/$command-$os-$arch.tar.gz"
	done
done

# What is for this machine is seen to start, and to be what it should be.
own=$("$go" env GOHOSTOS)-$("$go" env GOHOSTARCH)
for archive in "$out"/*-"$own".tar.gz; do
	[[ -e $archive ]] || continue
	mkdir -p "$stage/own"
	tar -C "$stage/own" -xzf "$archive"
	"$stage/own/$(basename "$archive" "-$own.tar.gz")" --version | grep -F "$build"
done

make --no-print-directory image
cp bin/image/*.oci.tar "$out"
cp bin/image/digest "$out/image.digest"

# The chart names the image of the same build. Helm writes the times of files into the package.
cp -R charts "$stage"
find "$stage/charts" -exec touch -d "$date" {} +
"$go" tool -modfile=hack/tools/helm/go.mod helm package "$stage/charts/trellis" --app-version "$version" --destination "$out"

hack/vulncheck/run.sh --if-reachable >"$out/vulnerabilities.txt"
cat "$out/vulnerabilities.txt"

(cd "$out" && sha256sum -- * >"$stage/SHA256SUMS")
cp "$stage/SHA256SUMS" "$out"
ls -l "$out"
