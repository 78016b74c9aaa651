//! Flags of a program: one table with name, unit, default and help, read through a trait.
//!
//! Precedence: flag, then environment `ROOMRING_<FLAG>`, then the seeds' own name, then default.
//! Every mistake is reported at once, before a port is bound. Rows that several programs have are
//! written once, in `rows`. What is absent: a configuration file.

mod check;
mod rows;
pub mod tls;
pub mod value;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

pub use check::Check;

/// Where values that are no arguments come from; tests hand in a map, programs the process.
pub trait Source {
    /// All environment variables.
    fn variables(&self) -> BTreeMap<String, String>;
    /// The text of a file named by a flag.
    ///
    /// # Errors
    /// Whatever the operating system says about the file.
    fn read(&self, path: &Path) -> std::io::Result<String>;
}

/// Puts one value into the configuration, or says what is wrong with it.
pub type Set<C> = fn(&mut C, &str, &dyn Source) -> Result<(), String>;

/// One flag.
#[derive(Debug)]
pub struct Flag<C> {
    /// Without the dashes.
    pub name: &'static str,
    /// How the value is written in help; empty for a switch.
    pub unit: &'static str,
    /// Text that `set` accepts; `None` where absence means something of its own.
    pub default: Option<&'static str>,
    /// What help says where `default` is `None`.
    pub absent: &'static str,
    pub repeatable: bool,
    /// The seeds' own variable for the same thing.
    pub seed_variable: Option<&'static str>,
    /// The value may hold a password: a mistake does not show it.
    pub secret: bool,
    pub help: &'static str,
    pub set: Set<C>,
}

/// The unit of a flag that is true or false.
pub const BOOL: &str = "BOOL";

/// A row of a table, to be completed by the methods below.
#[must_use]
pub const fn flag<C>(
    name: &'static str,
    unit: &'static str,
    default: &'static str,
    set: Set<C>,
) -> Flag<C> {
    Flag {
        name,
        unit,
        default: Some(default),
        absent: "",
        repeatable: false,
        seed_variable: None,
        secret: false,
        help: "",
        set,
    }
}

impl<C> Flag<C> {
    /// There is no default; help says `shown` in its place.
    #[must_use]
    pub const fn absent(mut self, shown: &'static str) -> Self {
        self.default = None;
        self.absent = shown;
        self
    }

    /// May be given several times, and as a comma list in the environment.
    #[must_use]
    pub const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Also read from the seeds' own variable.
    #[must_use]
    pub const fn seed(mut self, variable: &'static str) -> Self {
        self.seed_variable = Some(variable);
        self
    }

    /// The value may hold a password.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// What `--help` says of it.
    #[must_use]
    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// `--wait-period-ms` is read from `ROOMRING_WAIT_PERIOD_MS`.
    fn variable(&self) -> String {
        variable(self.name)
    }

    fn shown_default(&self) -> &'static str {
        self.default.unwrap_or(self.absent)
    }

    /// The values of one variable: a comma list where the flag is repeatable.
    fn split(&self, value: &str) -> Vec<String> {
        if self.repeatable {
            value.split(',').map(|part| part.trim().to_owned()).collect()
        } else {
            vec![value.to_owned()]
        }
    }

    /// The seeds switch their features on by exactly `true`; any other value means off.
    fn seed_value(&self, value: &str) -> String {
        if self.unit == BOOL { (value == "true").to_string() } else { value.to_owned() }
    }
}

/// What a program is to its operator.
#[derive(Debug)]
pub struct Program<C: 'static> {
    /// The name of the binary.
    pub name: &'static str,
    /// What it is, after the name in the first line of help.
    pub about: &'static str,
    /// What may fail at run time, in a few words.
    pub run_time: &'static str,
    /// Every flag, in the order of help.
    pub flags: &'static [Flag<C>],
    /// A configuration before any default is applied; the table sets every field.
    pub blank: fn() -> C,
    /// What two values say together.
    pub relations: fn(&mut C, &mut Check<'_>),
    /// Form and filter of the log.
    pub logs: fn(&C) -> (Option<value::LogFormat>, &str),
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<C> {
    /// Serve. Warnings are for stderr, one line each.
    Serve { config: Box<C>, warnings: Vec<String> },
    /// Print this and exit 0.
    Print(String),
}

/// Every mistake of the command line and environment, one sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(pub Vec<String>);

const ENV_PREFIX: &str = "ROOMRING_";

fn variable(flag: &str) -> String {
    format!("{ENV_PREFIX}{}", flag.replace('-', "_").to_ascii_uppercase())
}

impl<C> Program<C> {
    /// Reads arguments (without the program's name) and environment.
    ///
    /// # Errors
    /// Every mistake at once; nothing has been bound, made or changed.
    pub fn parse(
        &self,
        args: impl IntoIterator<Item = String>,
        source: &dyn Source,
    ) -> Result<Command<C>, Mistakes> {
        let mut reader =
            Reader { program: self, source, mistakes: Vec::new(), warnings: Vec::new() };
        let given = match reader.arguments(args) {
            Given::Print(text) => return Ok(Command::Print(text)),
            Given::Flags(given) => given,
        };
        let variables = source.variables();
        let mut config = (self.blank)();
        for flag in self.flags {
            reader.settle(&mut config, flag, &given, &variables);
        }
        reader.unknown_variables(&variables);
        let (mistakes, warnings) = (&mut reader.mistakes, &mut reader.warnings);
        (self.relations)(&mut config, &mut Check::new(&given, &variables, mistakes, warnings));
        if reader.mistakes.is_empty() {
            Ok(Command::Serve { config: Box::new(config), warnings: reader.warnings })
        } else {
            Err(Mistakes(reader.mistakes))
        }
    }

    /// The text of `--help`.
    #[must_use]
    pub fn help(&self) -> String {
        let name = self.name;
        let mut out = format!(
            "{name}: {}\n\
             \n\
             Usage: {name} [FLAG...]\n\
             \n\
             A flag wins over the environment variable ROOMRING_<FLAG> (dashes become underscores),\n\
             which wins over the default. Flags marked (repeatable) take a comma list in the\n\
             environment. An empty variable counts as not set.\n",
            self.about
        );
        for flag in self.flags {
            let unit = if flag.unit.is_empty() { String::new() } else { format!(" {}", flag.unit) };
            let repeatable = if flag.repeatable { " (repeatable)" } else { "" };
            let _ = write!(out, "\n  --{}{unit}{repeatable}\n      {}\n", flag.name, flag.help);
            let _ = writeln!(out, "      default: {}", flag.shown_default());
            if let Some(seed) = flag.seed_variable {
                let _ = writeln!(out, "      also read from: {seed}");
            }
        }
        let _ = write!(
            out,
            "\n  --help, -h\n      Print this text.\n\
             \n  --version, -V\n      Print the version.\n\
             \n\
             Exit codes: 0 drained after SIGTERM or SIGINT; 1 run-time failure ({});\n\
             64 usage or configuration; 130 forced by a second signal. SIGHUP drains only a process\n\
             whose stderr is a terminal.\n",
            self.run_time
        );
        out
    }

    /// The text of `--version`.
    #[must_use]
    pub fn version(&self) -> String {
        format!("{} {}\n", self.name, env!("CARGO_PKG_VERSION"))
    }

    /// Every mistake on a line of its own, for stderr.
    #[must_use]
    pub fn complaint(&self, mistakes: &Mistakes) -> String {
        let name = self.name;
        let mut out = String::new();
        for mistake in &mistakes.0 {
            let _ = writeln!(out, "{name}: {mistake}");
        }
        let _ = write!(out, "{name}: nothing was started; `{name} --help` lists every flag");
        out
    }
}

/// The values of the flags on the command line, by name.
type GivenFlags = BTreeMap<&'static str, Vec<String>>;

enum Given {
    Print(String),
    Flags(GivenFlags),
}

struct Reader<'a, C: 'static> {
    program: &'a Program<C>,
    source: &'a dyn Source,
    /// Bounded by the command line.
    mistakes: Vec<String>,
    /// Bounded by the command line.
    warnings: Vec<String>,
}

impl<C> Reader<'_, C> {
    fn arguments(&mut self, args: impl IntoIterator<Item = String>) -> Given {
        let mut given = GivenFlags::new();
        let mut args = args.into_iter().peekable();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--help" | "-h" => return Given::Print(self.program.help()),
                "--version" | "-V" => return Given::Print(self.program.version()),
                _ => {}
            }
            let Some(rest) = arg.strip_prefix("--") else {
                self.mistakes.push(format!("unexpected argument `{arg}`: flags begin with --"));
                continue;
            };
            let (name, inline) = match rest.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (rest, None),
            };
            let Some(flag) = self.program.flags.iter().find(|flag| flag.name == name) else {
                self.mistakes.push(format!("unknown flag --{name}"));
                // Its value, if it has one, is not a mistake of its own.
                if inline.is_none() {
                    args.next_if(|next| !next.starts_with("--"));
                }
                continue;
            };
            let value = match (flag.unit.is_empty(), inline) {
                (_, Some(value)) => Some(value),
                (true, None) => Some("true".to_owned()),
                (false, None) => args.next_if(|next| !next.starts_with("--")),
            };
            let Some(value) = value else {
                self.mistakes.push(format!("--{name} needs a value: {}", flag.unit));
                continue;
            };
            let values = given.entry(flag.name).or_default();
            if !values.is_empty() && !flag.repeatable {
                self.mistakes.push(format!("--{name} is given more than once"));
            }
            values.push(value);
        }
        Given::Flags(given)
    }

    /// Applies the default, then whichever source of a value comes first.
    fn settle(
        &mut self,
        config: &mut C,
        flag: &Flag<C>,
        given: &GivenFlags,
        variables: &BTreeMap<String, String>,
    ) {
        let variable = flag.variable();
        let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
        let (origin, values) = if let Some(values) = given.get(flag.name) {
            (format!("--{}", flag.name), values.clone())
        } else if let Some(value) = set(&variable) {
            (variable, flag.split(value))
        } else if let Some((seed, value)) =
            flag.seed_variable.and_then(|seed| Some((seed, set(seed)?)))
        {
            (seed.to_owned(), flag.split(&flag.seed_value(value)))
        } else {
            (
                format!("default of --{}", flag.name),
                flag.default.map(str::to_owned).into_iter().collect(),
            )
        };
        for value in values {
            if let Err(why) = (flag.set)(config, &value, self.source) {
                let shown = if flag.secret { String::new() } else { format!(" `{value}`") };
                self.mistakes.push(format!("{origin}{shown}: {why}"));
            }
        }
    }

    fn unknown_variables(&mut self, variables: &BTreeMap<String, String>) {
        let known: Vec<String> = self.program.flags.iter().map(Flag::variable).collect();
        for name in variables.keys().filter(|name| name.starts_with(ENV_PREFIX)) {
            if !known.contains(name) {
                self.warnings.push(format!("unknown environment variable {name} is ignored"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
