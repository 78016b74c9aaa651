use std::collections::BTreeMap;
use std::path::Path;

use process::flags::{Command, Mistakes};

use super::*;

/// A file system with one good key file, and no environment.
struct Keys;

impl Source for Keys {
    fn variables(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn read(&self, path: &Path) -> std::io::Result<String> {
        if path != Path::new("keys") {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        Ok("k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n".to_owned())
    }
}

fn parse(args: &[&str]) -> Result<Command<Config>, Mistakes> {
    PROGRAM.parse(args.iter().map(|arg| (*arg).to_owned()), &Keys)
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
    assert_eq!(shown(&config.edge()), shown(&config::Config::default()));
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

#[test]
fn help_is_golden() {
    let golden = include_str!("../../tests/golden/help.txt");
    assert_eq!(PROGRAM.help(), golden, "run `cargo xtask golden` and read the diff");
    assert!(table::FLAGS.iter().all(|flag| !flag.help.is_empty()));
}
