#!/bin/sh
# Looks for known vulnerabilities in packages, those of the commands unless others are given. See doc.go.
set -eu
cd "$(dirname "$0")/../.."

unreachable=4
if [ "${1:-}" = --if-reachable ]; then
	unreachable=0
	shift
fi
[ $# -gt 0 ] || set -- ./cmd/...
database=${GOVULNDB:-https://vuln.go.dev}
said=$(mktemp)
trap 'rm -f "$said"' EXIT

code=0
"${GO:-go}" tool -modfile=hack/tools/govulncheck/go.mod govulncheck -db "$database" "$@" >"$said" 2>&1 || code=$?
case $code in
0)
	cat "$said"
	;;
3)
	cat "$said" >&2
	;;
*)
	if ! grep -q "fetching vulnerabilities:\|creating client:" "$said"; then
		cat "$said" >&2
		exit "$code"
	fi
	code=$unreachable
	echo "vulnerabilities: NOT CHECKED. The database $database cannot be read."
	cat "$said" >&2 # what the network says, for those who build, not for what is released
	;;
esac
exit "$code"
