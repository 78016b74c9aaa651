use super::*;

fn proxies(blocks: &[&str]) -> TrustedProxies {
    TrustedProxies::new(blocks.iter().map(|block| block.parse().unwrap()).collect())
}

fn check(peer: &str, headers: &[(&str, &str)], want: &str) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    let trusted = proxies(&["10.0.0.0/8", "fd00::/8", "192.0.2.7"]);
    let got = trusted.client(peer.parse().unwrap(), &map);
    assert_eq!(got, ClientAddr::new(want.parse().unwrap()), "{peer} {headers:?}");
}

#[test]
fn headers_count_only_from_trusted_proxies() {
    let xff = "X-Forwarded-For";
    for (peer, headers, want) in [
        // An untrusted peer's headers are nothing.
        ("198.51.100.1", &[(xff, "1.2.3.4")][..], "198.51.100.1"),
        ("198.51.100.1", &[("Forwarded", "for=1.2.3.4")][..], "198.51.100.1"),
        ("10.0.0.1", &[][..], "10.0.0.1"),
        ("10.0.0.1", &[(xff, "1.2.3.4")][..], "1.2.3.4"),
        ("::ffff:10.0.0.1", &[(xff, "1.2.3.4")][..], "1.2.3.4"),
        ("192.0.2.7", &[(xff, "1.2.3.4")][..], "1.2.3.4"),
        ("192.0.2.8", &[(xff, "1.2.3.4")][..], "192.0.2.8"),
        // Several hops, right to left; what stands left of the first stranger is forgeable.
        ("10.0.0.1", &[(xff, "9.9.9.9, 1.2.3.4, 10.1.1.1, fd00::5")][..], "1.2.3.4"),
        ("10.0.0.1", &[(xff, "9.9.9.9"), (xff, "1.2.3.4,10.1.1.1")][..], "1.2.3.4"),
        ("10.0.0.1", &[(xff, "10.9.9.9, 10.1.1.1")][..], "10.9.9.9"),
        // Ports, brackets, quotes.
        ("10.0.0.1", &[(xff, "1.2.3.4:5678")][..], "1.2.3.4"),
        ("10.0.0.1", &[(xff, "[2001:db8::1]:99")][..], "2001:db8::"),
        ("10.0.0.1", &[(xff, "\"[2001:db8::1]\"")][..], "2001:db8::"),
        ("10.0.0.1", &[(xff, "2001:db8::1:2:3")][..], "2001:db8::"),
        // Garbage ends the walk at the last vouched hop.
        ("10.0.0.1", &[(xff, "1.2.3.4, unknown, 10.1.1.1")][..], "10.1.1.1"),
        ("10.0.0.1", &[(xff, "")][..], "10.0.0.1"),
        ("10.0.0.1", &[(xff, "1.2.3.4,,")][..], "10.0.0.1"),
        ("10.0.0.1", &[(xff, "1.2.3.4.5")][..], "10.0.0.1"),
        ("10.0.0.1", &[("Forwarded", "for=1.2.3.4;proto=https;by=10.0.0.1")][..], "1.2.3.4"),
        ("10.0.0.1", &[("Forwarded", "For=\"[2001:db8::1]:4711\"")][..], "2001:db8::"),
        (
            "10.0.0.1",
            &[("Forwarded", "for=9.9.9.9, for=\"1.2.3.4:80\" , for=10.2.2.2")][..],
            "1.2.3.4",
        ),
        ("10.0.0.1", &[("Forwarded", "for=9.9.9.9"), ("Forwarded", "for=1.2.3.4")][..], "1.2.3.4"),
        ("10.0.0.1", &[("Forwarded", "proto=\"a,b;for=9.9.9.9\";for=1.2.3.4")][..], "1.2.3.4"),
        ("10.0.0.1", &[("Forwarded", "for=\"1.2.3\\.4\"")][..], "1.2.3.4"),
        ("10.0.0.1", &[("Forwarded", "for=_hidden, for=10.3.3.3")][..], "10.3.3.3"),
        ("10.0.0.1", &[("Forwarded", "for=1.2.3.4, for=\"open")][..], "10.0.0.1"),
        ("10.0.0.1", &[("Forwarded", "for=1.2.3.4;for=5.6.7.8")][..], "10.0.0.1"),
        ("10.0.0.1", &[("Forwarded", "proto=https")][..], "10.0.0.1"),
        // Both headers: agreement counts, a contradiction falls back to the proxy.
        ("10.0.0.1", &[("Forwarded", "for=1.2.3.4"), (xff, "1.2.3.4")][..], "1.2.3.4"),
        ("10.0.0.1", &[("Forwarded", "for=6.6.6.6"), (xff, "1.2.3.4")][..], "10.0.0.1"),
    ] {
        check(peer, headers, want);
    }
}

#[test]
fn headers_over_their_bounds_are_not_read() {
    let long = format!("{},1.2.3.4", " ".repeat(PROXY_HEADER_BYTES_MAX));
    check("10.0.0.1", &[("X-Forwarded-For", &long)], "10.0.0.1");
    let many = format!("1.2.3.4{}", ",10.0.0.9".repeat(PROXY_HOPS_MAX));
    check("10.0.0.1", &[("X-Forwarded-For", &many)], "10.0.0.9");
    let most = format!("1.2.3.4{}", ",10.0.0.9".repeat(PROXY_HOPS_MAX - 1));
    check("10.0.0.1", &[("X-Forwarded-For", &most)], "1.2.3.4");
}

#[test]
fn ipv6_counts_by_its_first_half_and_mapped_as_ipv4() {
    let addr = |text: &str| ClientAddr::new(text.parse().unwrap());
    assert_eq!(addr("2001:db8:1:2::1"), addr("2001:db8:1:2:ffff::9"));
    assert_ne!(addr("2001:db8:1:2::1"), addr("2001:db8:1:3::1"));
    assert_eq!(addr("::ffff:1.2.3.4"), addr("1.2.3.4"));
    assert_ne!(addr("1.2.3.4").bits(), addr("1.2.3.5").bits());
}

#[test]
fn blocks_are_read_and_hold_what_they_say() {
    for (block, inside, outside) in [
        ("10.0.0.0/8", "10.255.1.1", "11.0.0.1"),
        ("10.1.2.3/8", "10.9.9.9", "9.9.9.9"),
        ("0.0.0.0/0", "1.2.3.4", "::1"),
        ("::/0", "2001:db8::1", "1.2.3.4"),
        ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ("192.0.2.0/31", "192.0.2.1", "192.0.2.2"),
        ("fd00::/8", "fdff::1", "fe00::1"),
        ("2001:db8::1/128", "2001:db8::1", "2001:db8::2"),
    ] {
        let cidr: Cidr = block.parse().unwrap();
        assert!(cidr.contains(inside.parse().unwrap()), "{block} {inside}");
        assert!(!cidr.contains(outside.parse().unwrap()), "{block} {outside}");
    }
    for bad in ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/08", "x/8", "/8"]
    {
        assert_eq!(bad.parse::<Cidr>(), Err(CidrError), "{bad}");
    }
}
