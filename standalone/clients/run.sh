#!/bin/sh
# Plays one whole scenario with every mainstream MCP SDK against a freshly started roomring, and
# against a cluster.
#
#   standalone/clients/run.sh [FOLDER]
#
# FOLDER (default target/clients) receives pinned versions of the SDKs, once. Needs node 20 or
# newer with npm, python3 with venv, and redis-server. ROOMRING_BIN names a built binary, which is
# then played with alone; without it the workspace's debug build is made. Ends with a line
# `N passed, N failed`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:-$root/target/clients}

ts1='@modelcontextprotocol/sdk@1.32'
ts2='@modelcontextprotocol/client@2.4'
py2='mcp==2.3.*'

for tool in node npm python3; do
  command -v "$tool" >/dev/null || { echo "clients: install $tool (Debian: nodejs npm python3-venv)"; exit 1; }
done

# install NAME PIN COMMAND...: once per pin.
install() {
  name=$1 pin=$2
  shift 2
  mkdir -p "$folder/$name"
  [ "$(cat "$folder/$name/pin" 2>/dev/null)" = "$pin" ] && return
  echo "clients: installing $pin"
  (cd "$folder/$name" && "$@" >install.log 2>&1) || { cat "$folder/$name/install.log"; exit 1; }
  echo "$pin" >"$folder/$name/pin"
}
npm_install() { [ -f package.json ] || npm init -y; npm install --no-audit --no-fund "$1"; }
pip_install() { python3 -m venv v && v/bin/pip install --quiet "$1"; }
install ts1 "$ts1" npm_install "$ts1"
install ts2 "$ts2" npm_install "$ts2"
install py2 "$py2" pip_install "$py2"
for name in ts1 ts2; do cp "$here/scenario.mjs" "$here/$name.mjs" "$folder/$name/"; done
cp "$here/py2.py" "$folder/py2/"

alone=${ROOMRING_BIN:-}
if [ -z "$alone" ]; then
  (cd "$root" && cargo build --quiet --package standalone &&
    cargo build --quiet --bins --package gateway --package room-node)
  ROOMRING_BIN=$root/target/debug/roomring
fi
server=
trap 'kill "$server" 2>/dev/null || true' EXIT

# serve COMMAND...: the first line is the server's first line; the end of the pipe means that
# there is no server.
serve() {
  rm -f "$folder/roomring.out"
  mkfifo "$folder/roomring.out"
  "$@" --guard-join-per-minute=1000 --wait-period-ms=400 --wait-active-period-ms=50 \
    >"$folder/roomring.out" 2>"$folder/roomring.err" &
  server=$!
  exec 3<"$folder/roomring.out"
  read -r line <&3 || { cat "$folder/roomring.err"; exit 1; }
  url=$(echo "$line" | sed -n 's/^listening url=\([^ ]*\) .*/\1/p')
}

passed=0 failed=0
play() {
  label=$1
  shift
  if timeout 120 "$@" >"$folder/last.out" 2>&1; then
    passed=$((passed + 1))
    echo "ok    $label: $(tail -1 "$folder/last.out")"
  else
    failed=$((failed + 1))
    echo "FAIL  $label"
    sed 's/^/      /' "$folder/last.out"
  fi
}
all() {
  play "typescript sdk 1$1" node "$folder/ts1/ts1.mjs" "$url"
  for mode in auto legacy 2026-07-28; do
    play "typescript client 2, $mode$1" node "$folder/ts2/ts2.mjs" "$url" "$mode"
    play "python mcp 2, $mode$1" "$folder/py2/v/bin/python" "$folder/py2/py2.py" "$url" "$mode"
  done
}
serve "$ROOMRING_BIN" --ephemeral --listen=127.0.0.1:0 --admin-listen=127.0.0.1:0
all ''
if [ -z "$alone" ]; then
  kill "$server"
  wait "$server" || true
  serve "$here/cluster.sh" "$root/target/debug" "$folder/cluster"
  all ', cluster'
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
