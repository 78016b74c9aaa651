using Workerd = import "/workerd/workerd.capnp";

# The folder of the objects' storage is named at the start: --directory-path=rooms=PATH.
const config :Workerd.Config = (
  services = [
    (name = "front", worker = .front),
    (name = "rooms", disk = (writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "front")],
);

const front :Workerd.Worker = (
  modules = [(name = "rooms.js", esModule = embed "rooms.js")],
  compatibilityDate = "2026-11-01",
  durableObjectNamespaces = [(className = "Room", uniqueKey = "rooms-of-the-benchmark", enableSql = true)],
  durableObjectStorage = (localDisk = "rooms"),
  bindings = [(name = "rooms", durableObjectNamespace = "Room")],
);
