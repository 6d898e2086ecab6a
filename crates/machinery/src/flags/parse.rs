//! From a command line to a program's arguments, or to what is printed instead of running it.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command};

use super::catalog::{Catalog, HELP, Part, RAW, VERSION};
use super::syntax::{Given, Syntax, split};
use super::upstream::{Class, Kind, flags};

/// What is particular to the command line of one program.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Upstream's name.
    pub name: &'static str,
    pub about: &'static str,
    pub syntax: Syntax,
    /// Upstream's lists of flags, of [`super::files`].
    pub upstream: &'static [&'static str],
    /// Defaults that differ from those of shared arguments: flag and value.
    pub defaults: &'static [(&'static str, &'static str)],
    /// What `--version` prints; none where upstream has no such flag.
    pub version: Option<Version>,
}

/// A version as upstream's programs print it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Behind the program's name: the sidecars.
    Own(&'static str),
    /// Of Kubernetes, which installers read and compare: the kube-* programs and the kubelet. `--version=raw` prints it in
    /// parts, as Go prints a structure.
    Kubernetes(&'static str),
}

impl Version {
    fn printed(self, argv0: &str, value: &str) -> Option<String> {
        match (self, value) {
            (Self::Own(version), "true") => Some(format!("{argv0} {version}\n")),
            (Self::Kubernetes(version), "true") => Some(format!("Kubernetes {version}\n")),
            (Self::Kubernetes(version), RAW) => Some(raw(version)),
            _ => None,
        }
    }
}

fn raw(version: &str) -> String {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let platform = format!("{}/{}", std::env::consts::OS, golang_name(std::env::consts::ARCH));
    let fields = [
        ("Major", major),
        ("Minor", minor),
        ("EmulationMajor", ""),
        ("EmulationMinor", ""),
        ("MinCompatibilityMajor", ""),
        ("MinCompatibilityMinor", ""),
        ("GitVersion", version),
        ("GitCommit", ""),
        ("GitTreeState", ""),
        ("BuildDate", "1970-01-01T00:00:00Z"),
        ("GoVersion", ""),
        ("Compiler", "rustc"),
        ("Platform", &platform),
    ];
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{value:?}")).collect();
    format!("version.Info{{{}}}\n", fields.join(", "))
}

fn golang_name(architecture: &str) -> &str {
    match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Arguments of a program that can start.
#[derive(Debug)]
pub struct Parsed<A> {
    pub args: A,
    /// One line about flags that were accepted and have no effect.
    pub warning: Option<String>,
}

/// Why a program does not start: what to print, where, and how to exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    pub text: String,
    pub to_stderr: bool,
    pub code: u8,
}

/// The program's own flags with the defaults that apply to it.
pub fn command<A: Args>(program: &Program) -> Command {
    let base = Command::new(program.name).no_binary_name(true);
    let base = A::augment_args(base.disable_help_flag(true).disable_version_flag(true));
    // After the arguments, whose types have descriptions of their own.
    let base = base.about(program.about).long_about(None);
    program.defaults.iter().fold(base, |command, (flag, value)| {
        // clap knows arguments by their field, flags by their name.
        let id =
            command.get_arguments().find(|arg| arg.get_long() == Some(flag)).map(|arg| arg.get_id().clone());
        match id {
            Some(id) => command.mut_arg(id, |arg| arg.default_value(*value)),
            None => command,
        }
    })
}

/// Parses `words`, which follow `argv0`.
pub fn parse<A: Args>(program: &Program, argv0: &str, words: &[String]) -> Result<Parsed<A>, Stop> {
    let command = command::<A>(program);
    let failed = |message: String| stop_with(program, &command, message);
    let upstream = flags(program.upstream).map_err(failed)?;
    let catalog = Catalog::new(&command, &upstream, program.version.is_some());
    let given = split(program.syntax, &catalog, words).map_err(failed)?;
    if given.iter().any(|flag| (flag.name == HELP || flag.name == "h") && flag.value == "true") {
        // Go's parser prints its usage where it prints errors.
        let to_stderr = program.syntax != Syntax::Cobra;
        return Err(Stop { text: usage(&command), to_stderr, code: 0 });
    }
    let asked = given.iter().rfind(|flag| flag.name == VERSION);
    let printed = program.version.zip(asked).and_then(|(version, flag)| version.printed(argv0, &flag.value));
    if let Some(text) = printed {
        return Err(Stop { text, to_stderr: false, code: 0 });
    }
    let sorted = sort(program.syntax, &catalog, &given).map_err(failed)?;
    let matches = command.clone().try_get_matches_from(&sorted.words);
    let args = matches.and_then(|matches| A::from_arg_matches(&matches));
    let args = args.map_err(|error| failed(reason(program.syntax, &error)))?;
    Ok(Parsed { args, warning: sorted.warning() })
}

/// Where each flag goes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sorted {
    /// For clap; each is `--name=value` or, for a switch, `--name`.
    words: Vec<String>,
    /// Names without effect, in the order given.
    ignored: Vec<String>,
}

impl Sorted {
    fn warning(&self) -> Option<String> {
        let names: Vec<String> = self.ignored.iter().map(|name| format!("--{name}")).collect();
        (!names.is_empty()).then(|| format!("accepted without effect in this program: {}", names.join(", ")))
    }
}

fn sort(syntax: Syntax, catalog: &Catalog, given: &[Given]) -> Result<Sorted, String> {
    let mut sorted = Sorted::default();
    for (index, flag) in given.iter().enumerate() {
        let Some(entry) = catalog.get(&flag.name) else { continue };
        let repeated = given[index + 1..].iter().any(|later| later.name == flag.name);
        match &entry.part {
            Part::Builtin => {}
            // The last one wins.
            Part::Own { appends: false, .. } if repeated => {}
            Part::Own { set_true: true, .. } => {
                sorted.words.extend((flag.value == "true").then(|| format!("--{}", flag.name)));
            }
            // In Go an empty value is the default of a flag without one.
            Part::Own { has_default: false, .. } if flag.value.is_empty() => {}
            Part::Own { .. } => sorted.words.push(format!("--{}={}", flag.name, flag.value)),
            Part::Upstream { kind, class } => {
                kind.check(&flag.value).map_err(|why| syntax.invalid(&flag.name, &flag.value, &why))?;
                accept(*kind, class, flag)?;
                if *class == Class::Tuning && !repeated {
                    sorted.ignored.push(flag.name.clone());
                }
            }
        }
    }
    Ok(sorted)
}

/// Whether a flag that the program does not declare can be taken.
fn accept(kind: Kind, class: &Class, Given { name, value }: &Given) -> Result<(), String> {
    match class {
        Class::Tuning => Ok(()),
        Class::Only { value: only, .. } if kind.same(value, only) => Ok(()),
        Class::Only { value: only, why } => {
            Err(format!("--{name}={value} is not supported, only --{name}={only}: {why}"))
        }
        Class::Refused(why) => Err(format!("--{name} is not supported: {why}")),
        Class::Here => Err(format!("--{name} is not supported by this program yet")),
    }
}

/// clap's error in upstream's words where it has any.
fn reason(syntax: Syntax, error: &clap::Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue)
        && let (Some(arg), Some(value)) =
            (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue))
    {
        let name = arg.split_whitespace().next().unwrap_or(arg).trim_start_matches('-');
        let why = std::error::Error::source(error).map(ToString::to_string);
        return syntax.invalid(
            name,
            value,
            &why.unwrap_or_else(|| "not one of the possible values".to_owned()),
        );
    }
    let text = error.to_string();
    let first: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    first.join(" ").trim_start_matches("error: ").to_owned()
}

fn usage(command: &Command) -> String {
    let name = command.get_name().to_owned();
    command.clone().override_usage(format!("{name} [flags]")).render_help().to_string()
}

/// Go's parser prints the error, then the usage; cobra the other way round.
fn stop_with(program: &Program, command: &Command, message: String) -> Stop {
    let usage = usage(command);
    let text = match program.syntax {
        Syntax::GoFlag | Syntax::Pflag => format!("{message}\n{usage}"),
        Syntax::Cobra => format!("{usage}\nError: {message}\n"),
    };
    Stop { text, to_stderr: true, code: program.syntax.error_code() }
}
