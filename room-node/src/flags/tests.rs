use std::collections::BTreeMap;
use std::path::Path;

use process::flags::{Command, Mistakes, Source};

use super::*;

/// No environment, and one file that is PEM but no certificate.
struct Nothing;

impl Source for Nothing {
    fn variables(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn read(&self, path: &Path) -> std::io::Result<String> {
        if path == Path::new("empty.pem") {
            return Ok("-----BEGIN NOTHING-----\n-----END NOTHING-----\n".to_owned());
        }
        Err(std::io::ErrorKind::NotFound.into())
    }
}

fn parse(args: &[&str]) -> Result<Command<Config>, Mistakes> {
    PROGRAM.parse(args.iter().map(|arg| (*arg).to_owned()), &Nothing)
}

const REDIS: &str = "--redis-url=redis://127.0.0.1";

#[test]
fn the_defaults_of_the_flags_are_those_of_the_parts() {
    let Ok(Command::Serve { config, warnings }) = parse(&[REDIS]) else { panic!("refused") };
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(config.listen.to_string(), "127.0.0.1:7070");
    assert_eq!((config.node_ttl_ms, config.node_heartbeat_ms), (5_000, 1_000));
    assert_eq!(config.host(), config::Config::default());
    assert_eq!(format!("{:#?}", config.room()), format!("{:#?}", room::Settings::default()));
}

#[test]
fn mistakes_say_what_to_do() {
    let rows: &[(&[&str], &str)] = &[
        (&[], "--redis-url is missing"),
        (&[REDIS, "--listen=0.0.0.0:7070"], "--advertise must say"),
        (&[REDIS, "--advertise=nowhere"], "--advertise `nowhere`: expected HOST:PORT"),
        (&[REDIS, "--node-id=a b"], "--node-id `a b`: a node id has"),
        (&[REDIS, "--node-ttl-ms=1000"], "a node lease lasts 4 heartbeats at least"),
        (&[REDIS, "--region=a.b"], "--region `a.b`: expected"),
        (&[REDIS, "--tls-cert=empty.pem"], "missing: --tls-key, --tls-ca"),
        (
            &[REDIS, "--tls-cert=empty.pem", "--tls-key=empty.pem", "--tls-ca=empty.pem"],
            "--tls-cert, --tls-key, --tls-ca: they cannot be used",
        ),
        (&[REDIS, "--durability=d5"], "--durability `d5`: the durability is one of"),
    ];
    for (args, needle) in rows {
        let Err(Mistakes(mistakes)) = parse(args) else { panic!("accepted {args:?}") };
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert!(mistakes[0].contains(needle), "{mistakes:?}");
    }
}

#[test]
fn help_is_golden() {
    let golden = include_str!("../../tests/golden/help.txt");
    assert_eq!(PROGRAM.help(), golden, "run `cargo xtask golden` and read the diff");
    assert!(table::FLAGS.iter().all(|flag| !flag.help.is_empty()));
}
