use super::*;
use crate::row;

/// A program of two flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Config {
    wait_burst: u32,
    allow_hosts: Vec<String>,
}

const PROGRAM: Program<Config> = Program {
    name: "probe",
    about: "a program of a test",
    run_time: "nothing",
    flags: &[row!(Config, wait_burst), row!(Config, allow_host)],
    blank: Config::default,
    relations: |config, check| {
        if config.wait_burst == 1 && check.is_given("allow-host") {
            check.mistake("one or the other");
        }
        if config.wait_burst == 2 {
            check.warning("two is odd");
        }
    },
    logs: |_| (None, "info"),
};

/// An environment without files.
struct Variables(&'static [(&'static str, &'static str)]);

impl Source for Variables {
    fn variables(&self) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.0.iter().map(owned).collect()
    }

    fn read(&self, _path: &Path) -> std::io::Result<String> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

fn parse(
    args: &[&str],
    variables: &'static [(&'static str, &'static str)],
) -> Result<Command<Config>, Mistakes> {
    PROGRAM.parse(args.iter().map(|arg| (*arg).to_owned()), &Variables(variables))
}

#[test]
fn values_come_from_flag_then_environment_then_seed_then_default() {
    type Row<'a> = (&'a [&'a str], &'static [(&'static str, &'static str)], u32, &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        (&[], &[], 3, &[]),
        (&[], &[("ROOMRING_WAIT_BURST", "5")], 5, &[]),
        (&["--wait-burst=7"], &[("ROOMRING_WAIT_BURST", "5")], 7, &[]),
        (&["--allow-host=a", "--allow-host", "b"], &[], 3, &["a", "b"]),
        (&[], &[("ROOMRING_ALLOW_HOST", "a, b"), ("ALLOWED_HOSTNAMES", "c")], 3, &["a", "b"]),
        (&[], &[("ALLOWED_HOSTNAMES", "c")], 3, &["c"]),
    ];
    for (args, variables, wait_burst, hosts) in rows {
        let allow_hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let config = Box::new(Config { wait_burst: *wait_burst, allow_hosts });
        let expected = Ok(Command::Serve { config, warnings: Vec::new() });
        assert_eq!(parse(args, variables), expected, "{args:?} {variables:?}");
    }
}

#[test]
fn mistakes_come_together_and_name_the_program() {
    let args = ["--wait-burst=1", "--allow-host=a", "--wait-burst=0", "--no"];
    let mistakes = parse(&args, &[]).unwrap_err();
    assert_eq!(mistakes.0.len(), 4, "{mistakes:?}");
    let complaint = PROGRAM.complaint(&mistakes);
    assert!(complaint.lines().all(|line| line.starts_with("probe: ")), "{complaint}");
    assert!(complaint.ends_with("`probe --help` lists every flag"), "{complaint}");
    let both = parse(&["--wait-burst=1", "--allow-host=a"], &[]);
    assert_eq!(both, Err(Mistakes(vec!["one or the other".to_owned()])));
}

#[test]
fn warnings_let_it_serve_and_help_wins_over_mistakes() {
    let warned = parse(&["--wait-burst=2"], &[("ROOMRING_BURST", "1")]);
    let Ok(Command::Serve { warnings, .. }) = warned else { panic!("{warned:?}") };
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_eq!(parse(&["--wait-burst=x", "-h"], &[]), Ok(Command::Print(PROGRAM.help())));
    assert_eq!(parse(&["-V"], &[]), Ok(Command::Print("probe 0.1.0\n".to_owned())));
}

#[test]
fn periods_and_names_of_regions_are_bounded() {
    assert_eq!(value::number("86400000", value::PERIOD), Ok(86_400_000_u64));
    let over = value::number::<u64>("86400001", value::PERIOD);
    assert_eq!(over, Err("expected a whole number from 1 to 86400000".to_owned()));
    let longest = "r".repeat(value::REGION_BYTES_MAX);
    assert_eq!(value::region(&longest), Ok(longest.clone()));
    assert!(value::region(&format!("{longest}r")).is_err());
}
