using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "front", worker = .front)],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "front")],
);

const front :Workerd.Worker = (
  modules = [(name = "front.js", esModule = embed "front.js")],
  compatibilityDate = "2026-11-01",
);
