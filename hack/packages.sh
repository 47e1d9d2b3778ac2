#!/bin/sh
# Usage: hack/packages.sh unit|planes [PACKAGE...]
# Prints the packages whose tests start control planes ("planes"), or the others that have tests ("unit"), without those
# that are named. What the tests are linked with tells, so nobody keeps a list. The package with the most tests comes
# first: it takes longest, and would otherwise begin when the processors have nothing else left.
set -eu
cd "$(dirname "$0")/.."
wanted="${1:?unit or planes}"
shift
list="$("${GO:-go}" list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./...)"
echo "$list" | awk -v wanted="$wanted" -v named="$*" '
	BEGIN { split(named, names, " "); for (i in names) without[names[i]] }
	$1 ~ /\.test$/ {
		kind = / [^ ]*\/hack\/controlplane( |$)/ ? "planes" : "unit"
		sub(/^github\.com\/[^\/]*\/[^\/]*/, ".", $1)
		sub(/\.test$/, "", $1)
		if (kind == wanted && !($1 in without)) print $1
	}' | while read -r package; do
	echo "$(cat "$package"/*_test.go | wc -c) $package"
done | sort -rn | cut -d' ' -f2
