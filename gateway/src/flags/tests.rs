use std::collections::BTreeMap;
use std::path::Path;

use process::flags::{Command, Mistakes};

use super::*;

/// The files there are, and no environment.
struct Files;

impl Source for Files {
    fn variables(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn read(&self, path: &Path) -> std::io::Result<String> {
        let text = match path.to_str() {
            Some("keys") => "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
            Some("two") => r#"{"default_region":"a","regions":{"a":["h:1"],"b":["h:2"]}}"#,
            Some("half") => r#"{"default_region":"a","#,
            Some("peer.pem") => include_str!("../running/tls/peer.pem"),
            Some("peer.key") => include_str!("../running/tls/peer.key"),
            Some("stranger.key") => include_str!("../running/tls/stranger.key"),
            Some("ca.pem") => include_str!("../running/tls/ca.pem"),
            _ => return Err(std::io::ErrorKind::NotFound.into()),
        };
        Ok(text.to_owned())
    }
}

fn parse(args: &[&str]) -> Result<Command<Config>, Mistakes> {
    PROGRAM.parse(args.iter().map(|arg| (*arg).to_owned()), &Files)
}

const NEEDED: [&str; 2] = ["--redis-url=redis://127.0.0.1", "--handle-keys-file=keys"];

#[test]
fn the_defaults_of_the_flags_are_those_of_the_edge() {
    let Ok(Command::Serve { config, warnings }) = parse(&NEEDED) else { panic!("refused") };
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.admin_listen.to_string(), "127.0.0.1:9090");
    assert_eq!(config.durability, Durability::D1);
    let shown = |edge: &config::Config| format!("{edge:#?}");
    let of_a_cluster =
        config::Config { pre_stop: Duration::from_secs(5), ..config::Config::default() };
    assert_eq!(shown(&config.edge()), shown(&of_a_cluster));
}

#[test]
fn what_is_missing_is_said_once_and_a_password_never() {
    let Err(Mistakes(mistakes)) = parse(&[]) else { panic!("accepted") };
    assert_eq!(mistakes.len(), 2, "{mistakes:?}");
    for (url, needle) in [
        ("redis://user:hunter2@host:port", "port"),
        ("rediss://user:hunter2@host", "rediss:// is not built in"),
    ] {
        let url = format!("--redis-url={url}");
        let Err(Mistakes(mistakes)) = parse(&[&url, NEEDED[1]]) else { panic!("accepted {url}") };
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert!(mistakes[0].starts_with("--redis-url: "), "{mistakes:?}");
        assert!(mistakes[0].contains(needle), "{mistakes:?}");
        assert!(!mistakes[0].contains("hunter2"), "{mistakes:?}");
    }
}

const TLS: [&str; 3] = ["--tls-cert=peer.pem", "--tls-key=peer.key", "--tls-ca=ca.pem"];

#[test]
fn regions_are_switched_on_by_their_file_a_listener_and_certificates() {
    let regions = ["--region=b", "--regions=two", "--peer-listen=127.0.0.1:7443"];
    let parsed = parse(&[&NEEDED[..], &regions, &TLS].concat());
    let Ok(Command::Serve { config, warnings }) = parsed else { panic!("refused") };
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(config.regions.as_ref().unwrap().prefix(), Some("b"));
    assert_eq!(config.peer_listen, Some("127.0.0.1:7443".parse().unwrap()));
    let shown = format!("{config:?}");
    assert!(config.tls.is_given() && !shown.contains("BEGIN"), "{shown}");
}

#[test]
fn every_mistake_about_regions_and_certificates_is_one_line() {
    const PEERS: &str = "--peer-listen=127.0.0.1:7443";
    let rows: &[(&[&str], &str)] = &[
        (&["--region=A"], "--region `A`: expected 1 to 24 of a-z, 0-9 and -"),
        (&["--region=A", "--regions=two", PEERS], "--region `A`"),
        (&["--region=c", "--regions=two", PEERS], "--regions `two`: c is not among the regions"),
        (&["--region=a", "--regions=half", PEERS], "--regions `half`: EOF while parsing"),
        (&["--region=a", "--regions=gone", PEERS], "--regions `gone`: cannot be read"),
        (&["--region=a", "--regions=two"], "--peer-listen is missing"),
        (&[PEERS], "--regions is missing"),
        (&["--region=a", "--regions=two", "--peer-listen=[::1]"], "--peer-listen `[::1]`"),
        (
            &["--region=a", "--regions=two", "--peer-listen=127.0.0.1:8080"],
            "--peer-listen and --listen name the same address",
        ),
    ];
    let one = |args: &[&str], needle: &str| {
        let Err(Mistakes(mistakes)) = parse(args) else { panic!("accepted {args:?}") };
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        let good = mistakes[0].contains(needle) && !mistakes[0].contains('\n');
        assert!(good, "{mistakes:?}");
    };
    for (args, needle) in rows {
        one(&[&NEEDED[..], &TLS, args].concat(), needle);
    }
    let region = ["--region=a", "--regions=two", PEERS];
    let rows: &[(&[&str], &str)] = &[
        (&[], "are missing: other regions are only reached with"),
        (&TLS[..1], "missing: --tls-key, --tls-ca"),
        (&[TLS[0], TLS[1], "--tls-ca=keys"], "--tls-ca `keys`: it is no PEM file"),
        (&[TLS[0], TLS[1], "--tls-ca=peer.key"], "--tls-ca: they cannot be used"),
        (&[TLS[0], TLS[2], "--tls-key=stranger.key"], "--tls-ca: they cannot be used"),
    ];
    for (tls, needle) in rows {
        let wanted = if tls.len() == 1 { &[][..] } else { &region[..] };
        one(&[&NEEDED[..], wanted, tls].concat(), needle);
    }
}

#[test]
fn help_is_golden() {
    let golden = include_str!("../../tests/golden/help.txt");
    assert_eq!(PROGRAM.help(), golden, "run `cargo xtask golden` and read the diff");
    assert!(table::FLAGS.iter().all(|flag| !flag.help.is_empty()));
}
