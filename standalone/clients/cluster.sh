#!/bin/sh
# A cluster in the place of one process: a Redis, three nodes and two gateways on loopback, with the
# flags given to the gateways. Its first line is that of the first gateway; SIGTERM ends all.
#
#   standalone/clients/cluster.sh PROGRAMS FOLDER [FLAG...]
#
# PROGRAMS holds roomring-gateway and roomring-node; FOLDER is emptied and receives data and logs.
set -eu
programs=$1 folder=$2
shift 2
command -v redis-server >/dev/null || { echo "cluster: install redis-server" >&2; exit 1; }
rm -rf "$folder"
mkdir -p "$folder/redis"
members=
trap 'trap - TERM INT EXIT; kill $members 2>/dev/null; wait; exit 0' TERM INT EXIT

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly yes --dir "$folder/redis" \
  >"$folder/redis.log" &
members=$!
python3 - "$port" <<'PY'
import socket, sys, time
end = time.monotonic() + 30
while True:
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1).close()
        break
    except OSError:
        if time.monotonic() > end:
            sys.exit("cluster: redis-server does not listen")
        time.sleep(0.05)
PY
# One line of the standard output of a member, by whose first line it serves.
start() {
  name=$1
  shift
  mkfifo "$folder/$name.out"
  "$@" --listen=127.0.0.1:0 --admin-listen=127.0.0.1:0 --redis-url="redis://127.0.0.1:$port" \
    >"$folder/$name.out" 2>"$folder/$name.log" &
  members="$! $members"
  exec 4<"$folder/$name.out"
  read -r line <&4 || { cat "$folder/$name.log" >&2; exit 1; }
}
for n in 1 2 3; do
  start "node$n" "$programs/roomring-node" --node-id="node$n" \
    --wait-period-ms=400 --wait-active-period-ms=50
done
umask 077
echo 'test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=' >"$folder/handle-keys"
for n in 2 1; do
  start "gateway$n" "$programs/roomring-gateway" --handle-keys-file="$folder/handle-keys" \
    --pre-stop-ms=0 "$@"
done
echo "$line"
wait
