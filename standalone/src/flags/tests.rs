use super::*;

/// An environment and a file system made of maps.
#[derive(Default)]
struct Fake {
    variables: BTreeMap<String, String>,
    files: BTreeMap<PathBuf, String>,
}

impl Source for Fake {
    fn variables(&self) -> BTreeMap<String, String> {
        self.variables.clone()
    }

    fn read(&self, path: &Path) -> std::io::Result<String> {
        self.files.get(path).cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}

fn fake(variables: &[(&str, &str)]) -> Fake {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Fake { variables: variables.iter().map(owned).collect(), files: BTreeMap::new() }
}

fn run(args: &[&str], source: &Fake) -> Result<Command, Mistakes> {
    parse(args.iter().map(|arg| (*arg).to_owned()), source)
}

fn serve(args: &[&str], source: &Fake) -> (Config, Vec<String>) {
    match run(args, source) {
        Ok(Command::Serve { config, warnings }) => (*config, warnings),
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let (config, warnings) = serve(&[], &fake(&[]));
    assert_eq!(warnings, Vec::<String>::new());
    let expected = Config {
        listen: "127.0.0.1:8080".parse().unwrap(),
        admin_listen: "127.0.0.1:9090".parse().unwrap(),
        data_dir: "./roomring-data".into(),
        wait_period_ms: 10_000,
        wait_active_period_ms: 2_000,
        wait_burst: 3,
        hold_ms_max: 5_000,
        guard_join_per_minute: 10,
        guard_info_per_minute: 60,
        guard_call_per_minute: 240,
        body_bytes_max: 2 << 20,
        connections_max: 10_000,
        inflight_max: 4_096,
        header_timeout_ms: 10_000,
        body_timeout_ms: 30_000,
        idle_to_stub_ms: 30_000,
        stub_to_cold_ms: 600_000,
        agent_lease_ms: 90_000,
        empty_room_ms: 1_800_000,
        shed_queue_age_ms: 100,
        room_apps_enabled: true,
        log: "info".to_owned(),
        ..blank()
    };
    assert_eq!(config, expected);
}

#[test]
fn a_flag_wins_over_its_variable_which_wins_over_the_seeds_name() {
    type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], bool);
    let rows: &[Row<'_>] = &[
        (&[], &[], false),
        (&[], &[("MCP_LONGPOLL_ENABLED", "true")], true),
        // The seeds switch on by exactly `true`.
        (&[], &[("MCP_LONGPOLL_ENABLED", "yes")], false),
        (
            &[],
            &[("MCP_LONGPOLL_ENABLED", "true"), ("ROOMRING_MCP_LONGPOLL_ENABLED", "false")],
            false,
        ),
        (&[], &[("ROOMRING_MCP_LONGPOLL_ENABLED", "1")], true),
        (&[], &[("ROOMRING_MCP_LONGPOLL_ENABLED", "")], false),
        (&["--mcp-longpoll-enabled", "false"], &[("ROOMRING_MCP_LONGPOLL_ENABLED", "1")], false),
        (&["--mcp-longpoll-enabled=true"], &[], true),
    ];
    for (args, variables, expected) in rows {
        let (config, _) = serve(args, &fake(variables));
        assert_eq!(config.mcp_longpoll_enabled, *expected, "{args:?} {variables:?}");
    }
}

#[test]
fn the_seeds_names_of_hosts_are_accepted() {
    let hosts = |variables| {
        let (config, _) = serve(&[], &fake(variables));
        (config.allow_hosts, config.allow_origins, config.app_url)
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        hosts(&[("ALLOWED_HOSTNAMES", "a.example, B.example")]),
        (owned(&["a.example", "b.example"]), owned(&[]), None)
    );
    assert_eq!(hosts(&[("ALLOW_ANY_HOST", "1")]), (owned(&["*"]), owned(&[]), None));
    assert_eq!(hosts(&[("ALLOW_ANY_HOST", "no")]), (owned(&[]), owned(&[]), None));
    assert_eq!(
        hosts(&[("APP_URL", "https://r.example/")]),
        (owned(&[]), owned(&[]), Some("https://r.example".to_owned()))
    );
}

#[test]
fn every_mistake_is_reported_at_once() {
    let mut source = fake(&[
        ("ROOMRING_WAIT_BURST", "many"),
        ("ROOMRING_GUARD_CALL_PER_MINUTE", "0"),
        ("ROOMRING_LOG_FORMAT", "xml"),
    ]);
    let args = [
        "--listen=nowhere",
        "--wait-period-ms",
        "--hold-ms-max",
        "25001",
        "--sync",
        "sometimes",
        "--trusted-proxy=10.0.0.0/33",
        "--allow-origin=*",
        "--allow-host=http://rooms.example",
        "--handle-keys-file=keys",
        "--unheard-of",
        "value",
        "stray",
        "--ephemeral",
        "--data-dir=x",
        "--app-url",
        "rooms.example",
        "--room-apps",
        "absent.json",
        "--region",
        "eu",
    ];
    source.files.insert("keys".into(), "no key at all".into());
    let Err(Mistakes(mistakes)) = run(&args, &source) else { panic!("accepted") };
    for needle in [
        "--listen `nowhere`",
        "--wait-period-ms needs a value: MS",
        "--hold-ms-max `25001`: expected a whole number from 0 to 25000",
        "--sync `sometimes`: expected always or every-ms=N",
        "--trusted-proxy `10.0.0.0/33`",
        "--allow-origin `*`: expected a host name",
        "--allow-host `http://rooms.example`: expected a host name without http://",
        "--handle-keys-file `keys`",
        "unknown flag --unheard-of",
        "unexpected argument `stray`",
        "--ephemeral keeps nothing",
        "--app-url `rooms.example`",
        "--room-apps `absent.json`: cannot be read",
        "unknown flag --region",
        "ROOMRING_WAIT_BURST `many`",
        "ROOMRING_GUARD_CALL_PER_MINUTE `0`",
        "ROOMRING_LOG_FORMAT `xml`: expected text or json",
    ] {
        let found = mistakes.iter().filter(|mistake| mistake.starts_with(needle)).count();
        assert_eq!(found, 1, "{needle} in {mistakes:#?}");
    }
    assert_eq!(mistakes.len(), 17, "{mistakes:#?}");
}

#[test]
fn values_are_read_as_people_write_them() {
    let mut source = fake(&[("ROOMRING_TRUSTED_PROXY", "10.0.0.0/8,fd00::/8")]);
    source.files.insert("apps.json".into(), r#"[{"appId":"whiteboard","title":"Board"}]"#.into());
    let args = [
        "--listen=localhost:0",
        "--sync=every-ms=50",
        "--allow-host=a.example",
        "--allow-host",
        "*",
        "--ephemeral",
        "--room-apps=apps.json",
        "--log-format=json",
    ];
    let (config, _) = serve(&args, &source);
    assert_eq!(config.listen.to_string(), "127.0.0.1:0");
    assert_eq!(config.sync, Sync::EveryMs(50));
    assert_eq!(config.allow_hosts, ["a.example", "*"]);
    assert!(config.ephemeral);
    let proxies = ["10.0.0.0/8", "fd00::/8"].map(|cidr| cidr.parse().unwrap());
    assert_eq!(config.trusted_proxies, proxies);
    assert_eq!(config.room_apps.len(), 1);
    assert_eq!(config.log_format, Some(LogFormat::Json));
}

#[test]
fn the_app_catalog_is_checked() {
    let twice = r#"[{"appId":"a","title":"A"},{"appId":"a","title":"B"}]"#;
    let entry = |n| format!(r#"{{"appId":"a{n}","title":"A"}}"#);
    let full: Vec<String> = (0..=value::ROOM_APPS_MAX).map(entry).collect();
    for (text, needle) in [
        ("{}".to_owned(), "no list of"),
        (r#"[{"appId":"","title":"A"}]"#.to_owned(), "entry 0 has an empty"),
        (r#"[{"appId":"a","title":"A","more":1}]"#.to_owned(), "no list of"),
        (twice.to_owned(), "entry 1 repeats appId a"),
        (format!("[{}]", full.join(",")), "lists 17 apps, at most 16"),
    ] {
        let mut source = fake(&[]);
        source.files.insert("apps.json".into(), text.clone());
        let Err(Mistakes(mistakes)) = run(&["--room-apps=apps.json"], &source) else {
            panic!("accepted {text}");
        };
        assert!(mistakes.iter().all(|mistake| mistake.contains(needle)), "{mistakes:?}");
    }
}

#[test]
fn surprises_are_warnings() {
    let source = fake(&[("ROOMRING_WAIT_PERIOD", "10"), ("ROOMRING_LOG", "info")]);
    let rows: &[(&[&str], &str)] = &[
        (&[], "unknown environment variable ROOMRING_WAIT_PERIOD is ignored"),
        (&["--listen=0.0.0.0:80"], "listening beyond loopback without --allow-host"),
    ];
    for (args, needle) in rows {
        let (_, warnings) = serve(args, &source);
        let found = warnings.iter().filter(|warning| warning.starts_with(needle)).count();
        assert_eq!(found, 1, "{args:?}: {warnings:?}");
    }
}

#[test]
fn help_lists_every_flag_and_is_golden() {
    let golden = include_str!("../../tests/golden/help.txt");
    assert_eq!(run(&["--listen=bad", "--help"], &fake(&[])), Ok(Command::Print(help())));
    assert_eq!(help(), golden, "write the new text to standalone/tests/golden/help.txt");
    for flag in FLAGS {
        assert!(!flag.help.is_empty(), "{}", flag.name);
        assert!(help().contains(&format!("--{}", flag.name)), "{}", flag.name);
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(run(&["-V"], &fake(&[])), Ok(Command::Print("roomring 0.1.0\n".to_owned())));
}
