#!/usr/bin/env bash
# Starts a fleet of simulated API servers with 300 objects each and measures what it takes: bench.sh TARGETS [flags of
# "fleetsim bench"]. The fleet and its clients are two processes, so that the figures are those of the fleet alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
targets=$1
shift

dir=$(mktemp -d)
trap 'kill "${fleet:-}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
"${GO:-go}" build -o "$dir/fleetsim" ./hack/fleetsim/cmd
"$dir/fleetsim" serve --targets "$targets" --objects shoot-20 --listen 127.0.0.1:0 2>"$dir/log" &
fleet=$!
until address=$(grep -o 'http://127.0.0.1:[0-9]*' "$dir/log"); do
	kill -0 "$fleet" 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
	sleep 0.2
done
cat "$dir/log" >&2
"$dir/fleetsim" bench --control "$address" "$@"
