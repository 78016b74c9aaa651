//! What is printed on stdout: the first line that scripts read, then what a person needs to
//! connect an agent.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// The line other programs wait for (interfaces.md, process behaviour).
#[must_use]
pub fn first_line(listen: SocketAddr, admin: SocketAddr) -> String {
    format!("listening url={} admin=http://{}", mcp_url(listen), reachable(admin))
}

/// The line other programs wait for, of a room node.
#[must_use]
pub fn first_line_of_node(listen: SocketAddr, admin: SocketAddr) -> String {
    format!("listening grpc={} admin=http://{}", reachable(listen), reachable(admin))
}

/// The MCP endpoint as a client on this machine reaches it.
#[must_use]
pub fn mcp_url(listen: SocketAddr) -> String {
    format!("{}/mcp", base_url(listen))
}

/// The base of everything served, without a trailing slash.
#[must_use]
pub fn base_url(listen: SocketAddr) -> String {
    format!("http://{}", reachable(listen))
}

/// Configuration ready to paste for four agent hosts, and a curl call that works as it stands.
#[must_use]
pub fn text(name: &str, listen: SocketAddr, storage: &str) -> String {
    let url = mcp_url(listen);
    let mut out = String::new();
    let _ = write!(
        out,
        "\n\
         {name} {version}: {storage}\n\
         \n\
         MCP endpoint (Streamable HTTP, no authentication): {url}\n\
         \n\
         Claude Code, in a shell:\n  \
           claude mcp add --transport http roomring {url}\n\
         \n\
         Claude Desktop, Cursor (mcp.json):\n  \
           {{\"mcpServers\": {{\"roomring\": {{\"type\": \"http\", \"url\": \"{url}\"}}}}}}\n\
         \n\
         VS Code (.vscode/mcp.json):\n  \
           {{\"servers\": {{\"roomring\": {{\"type\": \"http\", \"url\": \"{url}\"}}}}}}\n\
         \n\
         Codex (~/.codex/config.toml):\n  \
           [mcp_servers.roomring]\n  \
           url = \"{url}\"\n\
         \n\
         By hand, a new room:\n  \
           {curl}\n\
         \n",
        version = env!("CARGO_PKG_VERSION"),
        curl = curl(&url),
    );
    out
}

/// One line of shell that makes a room and prints the participant handle and the invitation.
fn curl(url: &str) -> String {
    format!(
        "curl -s {url} -H 'content-type: application/json' \
         -H 'accept: application/json, text/event-stream' -d \
         '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":\
         {{\"name\":\"create_room\",\"arguments\":{{\"name\":\"Ana\"}}}}}}'"
    )
}

/// An address that can be connected to: a wildcard is reached by loopback.
fn reachable(addr: SocketAddr) -> SocketAddr {
    if !addr.ip().is_unspecified() {
        return addr;
    }
    let ip = match addr.ip() {
        IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
    };
    SocketAddr::new(ip, addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_addresses_that_can_be_reached() {
        for (listen, admin, line) in [
            (
                "127.0.0.1:8080",
                "127.0.0.1:9090",
                "listening url=http://127.0.0.1:8080/mcp admin=http://127.0.0.1:9090",
            ),
            ("0.0.0.0:80", "[::]:9", "listening url=http://127.0.0.1:80/mcp admin=http://[::1]:9"),
        ] {
            let (listen, admin) = (listen.parse().unwrap(), admin.parse().unwrap());
            assert_eq!(first_line(listen, admin), line);
        }
    }

    #[test]
    fn the_banner_configures_four_hosts_with_the_url() {
        let listen = "127.0.0.1:4242".parse().unwrap();
        let banner = text("roomring", listen, "rooms in ./roomring-data");
        for needle in ["claude mcp add", "\"mcpServers\"", "\"servers\"", "[mcp_servers.roomring]"]
        {
            assert!(banner.contains(needle), "{needle}");
        }
        assert_eq!(banner.matches("http://127.0.0.1:4242/mcp").count(), 6);
        let mcp = |line: &&str| line.trim_start().starts_with('{');
        for line in banner.lines().filter(mcp) {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
        }
    }
}
