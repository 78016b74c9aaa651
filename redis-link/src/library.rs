//! One Lua text, two forms: a library of functions, or one script a function.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};

use crate::socket::{Socket, SocketError};
use crate::value::{error_line, field, items, text};
use crate::{Call, Library, OpenError};

/// How a primary runs functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// FCALL.
    Functions,
    /// EVALSHA, because FUNCTION is forbidden or unknown there.
    Scripts,
}

/// All functions of a link.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// Bounded by the libraries that the settings name.
    libraries: Vec<Volume>,
    /// Bounded by the functions that those name.
    functions: HashMap<&'static str, Arc<Function>>,
}

#[derive(Debug)]
struct Volume {
    name: &'static str,
    source: String,
}

/// One function, in both forms.
#[derive(Debug)]
pub(crate) struct Function {
    registered: String,
    script: String,
    digest: String,
}

impl Shelf {
    pub(crate) fn new(libraries: &'static [Library]) -> Result<Self, OpenError> {
        let mut shelf = Self { libraries: Vec::new(), functions: HashMap::new() };
        for library in libraries {
            shelf.add(library)?;
        }
        Ok(shelf)
    }

    fn add(&mut self, library: &'static Library) -> Result<(), OpenError> {
        let wrong = |why: &str| OpenError::BadLibrary { name: library.name, why: why.to_owned() };
        if !is_name(library.name) {
            return Err(wrong("its name has other signs than letters, digits and _"));
        }
        let mut source = format!("#!lua name={}\n{}\n", library.name, library.code);
        let writing = library.functions.iter().map(|name| (*name, ""));
        let reading = library.reads.iter().map(|name| (*name, "no-writes"));
        let vital = library.vital.iter().map(|name| (*name, "allow-oom"));
        for (name, flag) in writing.chain(reading).chain(vital) {
            if !is_name(name) {
                return Err(wrong("a function's name has other signs than letters, digits and _"));
            }
            let registered = format!("{}_{name}", library.name);
            let flags =
                if flag.is_empty() { String::new() } else { format!(", flags={{'{flag}'}}") };
            let line = writeln!(
                source,
                "redis.register_function{{function_name='{registered}', callback={name}{flags}}}"
            );
            line.map_err(|_| wrong("it cannot be written out"))?;
            let script =
                format!("#!lua flags={flag}\n{}\nreturn {name}(KEYS, ARGV)\n", library.code);
            let digest = digest(script.as_bytes());
            let function = Arc::new(Function { registered, script, digest });
            if self.functions.insert(name, function).is_some() {
                return Err(wrong("a function's name is taken already"));
            }
        }
        self.libraries.push(Volume { name: library.name, source });
        Ok(())
    }

    pub(crate) fn function(&self, name: &str) -> Option<Arc<Function>> {
        self.functions.get(name).map(Arc::clone)
    }

    /// Whether everything is still loaded: an operator may have flushed it.
    pub(crate) async fn is_loaded(&self, socket: &Socket, form: Form) -> Result<bool, SocketError> {
        let mut commands = Pipeline::new();
        if form == Form::Functions {
            for library in &self.libraries {
                commands.cmd("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg(library.name);
            }
        } else {
            for function in self.functions.values() {
                commands.cmd("SCRIPT").arg("EXISTS").arg(&function.digest);
            }
        }
        if commands.is_empty() {
            return Ok(true);
        }
        let answers = socket.ask(&commands).await?;
        Ok(answers.iter().all(|answer| match answer {
            Value::Array(found) => !found.is_empty() && !found.contains(&Value::Int(0)),
            // Where asking is forbidden, what was loaded is taken to be there.
            Value::ServerError(e) => e.code() == "NOPERM",
            _ => false,
        }))
    }

    /// Loads everything on a primary, as functions if they are allowed there, else as scripts.
    pub(crate) async fn load(&self, socket: &Socket) -> Result<Form, LoadError> {
        for library in &self.libraries {
            // Loading is a write: refused without replicas or memory, where reading and what is
            // vital must go on.
            if library.is_there(socket).await? {
                continue;
            }
            let mut command = redis::cmd("FUNCTION");
            command.arg("LOAD").arg("REPLACE").arg(library.source.as_bytes());
            match socket.one(command).await? {
                // Unknown before 7.0 has the code ERR, as has a fault in the code; SCRIPT LOAD then
                // tells the two apart, since a fault is one there too.
                Value::ServerError(e) if matches!(e.code(), "NOPERM" | "ERR") => {
                    let why = e.details().unwrap_or_default().to_owned();
                    return self.load_scripts(socket, library.name, why).await;
                }
                Value::ServerError(e) => return Err(refused(library.name, &e)),
                _ => {}
            }
        }
        Ok(Form::Functions)
    }

    async fn load_scripts(
        &self,
        socket: &Socket,
        library: &'static str,
        why: String,
    ) -> Result<Form, LoadError> {
        for function in self.functions.values() {
            let mut command = redis::cmd("SCRIPT");
            command.arg("LOAD").arg(function.script.as_bytes());
            match socket.one(command).await? {
                Value::ServerError(e) => return Err(refused(library, &e)),
                Value::BulkString(found) if found == function.digest.as_bytes() => {}
                Value::SimpleString(found) if found == function.digest => {}
                _ => {
                    let why = "SCRIPT LOAD answered another digest than the script's".to_owned();
                    return Err(LoadError::Refused { library, why });
                }
            }
        }
        tracing::warn!(library, why, "FUNCTION is refused there; scripts are used instead");
        Ok(Form::Scripts)
    }
}

impl Function {
    /// The command that runs it.
    pub(crate) fn command(&self, call: &Call, form: Form) -> Cmd {
        let (verb, name) = match (form, call.writes) {
            (Form::Functions, true) => ("FCALL", &self.registered),
            (Form::Functions, false) => ("FCALL_RO", &self.registered),
            (Form::Scripts, true) => ("EVALSHA", &self.digest),
            (Form::Scripts, false) => ("EVALSHA_RO", &self.digest),
        };
        let mut command = redis::cmd(verb);
        command.arg(name).arg(call.keys.len());
        for part in call.keys.iter().chain(&call.args) {
            command.arg(part.as_ref());
        }
        command
    }
}

impl Volume {
    /// Whether exactly this text is loaded already.
    async fn is_there(&self, socket: &Socket) -> Result<bool, SocketError> {
        let mut command = redis::cmd("FUNCTION");
        command.arg("LIST").arg("LIBRARYNAME").arg(self.name).arg("WITHCODE");
        let listed = socket.one(command).await?;
        let code = items(&listed).first().and_then(|library| field(library, "library_code"));
        Ok(code.and_then(text) == Some(&self.source))
    }
}

/// Why the functions are not loaded.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("it answers {0}")]
    NotNow(String),
    #[error("{library}: {why}")]
    Refused { library: &'static str, why: String },
}

fn refused(library: &'static str, error: &redis::ServerError) -> LoadError {
    if matches!(error.code(), "LOADING" | "BUSY" | "NOREPLICAS" | "OOM" | "MISCONF" | "READONLY") {
        return LoadError::NotNow(error_line(error));
    }
    LoadError::Refused { library, why: error_line(error) }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// SHA-1 in hexadecimal digits, as Redis names scripts.
fn digest(bytes: &[u8]) -> String {
    redis::Script::new(&String::from_utf8_lossy(bytes)).get_hash().to_owned()
}
