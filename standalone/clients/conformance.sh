#!/bin/sh
# The protocol's own suite against the product: `roomring` built with `--features test-hooks`, on a
# data directory of its own, over loopback.
#
#   standalone/clients/conformance.sh [FOLDER]
#
# FOLDER (default target/conformance) keeps the suite and its reports. Ends with a line
# `N passed, N failed`; there is no list of known failures.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:-$root/target/conformance}

for tool in npm python3; do
  command -v "$tool" >/dev/null || { echo "conformance: install $tool (Debian: npm python3-venv)"; exit 1; }
done
mkdir -p "$folder"
(cd "$root" && cargo build --quiet --locked --package standalone --features test-hooks)
# A copy: the next build without the hooks takes the name.
cp "$root/target/debug/roomring" "$folder/roomring"

rm -rf "$folder/data" "$folder/roomring.out"
mkfifo "$folder/roomring.out"
"$folder/roomring" --data-dir="$folder/data" --listen=127.0.0.1:0 --admin-listen=127.0.0.1:0 \
  >"$folder/roomring.out" 2>"$folder/roomring.err" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
exec 3<"$folder/roomring.out"
read -r line <&3 || { cat "$folder/roomring.err"; exit 1; }
url=$(echo "$line" | sed -n 's/^listening url=\([^ ]*\) .*/\1/p')

LAB=$folder "$root/gateway/tests/conformance.sh" "$url"
