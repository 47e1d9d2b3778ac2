#!/usr/bin/env bash
# Generates the deep-copy functions and the CRDs from the types in apis/, reference pages from the code, the index of
# tests, the dashboards, and what goes with the values of the chart. Called by `make generate`.
# With --check it leaves everything as it is, and fails if something is not what would be generated.
set -euo pipefail
cd "$(dirname "$0")/.."

generated=(apis/*/*/zz_generated.deepcopy.go charts/trellis/files/crds
	docs/reference/{metrics,api,annotations,conditions,trellisctl}.md
	docs/compatibility/tests.md
	charts/trellis/monitoring/{dashboards,plutono} charts/trellis/README.md charts/trellis/values.schema.json)

checksum() {
	find "${generated[@]}" -type f -exec sha256sum {} + | sort -k2
}

generate() {
	local controller_gen=(go tool -modfile=hack/tools/controller-gen/go.mod controller-gen)
	"${controller_gen[@]}" object paths=./apis/...
	"${controller_gen[@]}" crd paths=./apis/resources/... paths=./apis/hub/... output:crd:dir=charts/trellis/files/crds
	go run ./hack/reference docs
	go run ./hack/dashboards charts/trellis/monitoring
	go run ./hack/chart charts/trellis
}

if [[ "${1:-}" != --check ]]; then
	generate
	exit
fi

backup="$(mktemp -d)"
trap 'cp -a "$backup/." .; rm -rf "$backup"' EXIT
cp -a --parents "${generated[@]}" "$backup"
before="$(checksum)"
generate
if ! diff <(echo "$before") <(checksum); then
	echo "generated files are out of date: run make generate" >&2
	exit 1
fi
