//! Which program a command line is for.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use bowline_machinery::flags::Stop;

use super::Entry;
use crate::logging;

/// A program and what it was called with.
pub struct Chosen<'a> {
    pub entry: &'a Entry,
    /// As it is named in what it prints.
    pub argv0: OsString,
    pub words: Vec<OsString>,
}

/// The program that the name of the binary, or else its first word, stands for; none if clap is to read the line.
pub fn choose(table: &[Entry], argv: impl IntoIterator<Item = OsString>) -> Option<Chosen<'_>> {
    let mut argv = argv.into_iter();
    let argv0 = argv.next()?;
    let mut words: Vec<OsString> = argv.collect();
    let find = |name: &OsStr| table.iter().find(|entry| name == entry.program.name);
    if let Some(entry) = Path::new(&argv0).file_name().and_then(find) {
        return Some(Chosen { entry, argv0, words });
    }
    // A program may have a name of two words; the longest that fits is meant.
    let named = |entry: &&Entry| {
        let name: Vec<&str> = entry.program.name.split(' ').collect();
        words.len() >= name.len() && name.iter().zip(&words).all(|(part, word)| word == part)
    };
    let entry = table.iter().filter(named).max_by_key(|entry| entry.program.name.split(' ').count())?;
    words.drain(..entry.program.name.split(' ').count());
    Some(Chosen { entry, argv0: entry.program.name.into(), words })
}

/// Runs a program to its end.
pub fn run(chosen: Chosen<'_>) -> ExitCode {
    let Chosen { entry, argv0, words } = chosen;
    let argv0 = argv0.to_string_lossy().into_owned();
    let ready = texts(words).and_then(|words| (entry.start)(&argv0, &words));
    let ready = match ready {
        Ok(ready) => ready,
        Err(stop) => return print(&stop),
    };
    logging::start_program(&ready.logging);
    if let Some(warning) = ready.warning {
        tracing::warn!("{warning}");
    }
    let ended = crate::block_on(ready.run);
    ended.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "{argv0}: {error:#}");
        ExitCode::FAILURE
    })
}

fn texts(words: Vec<OsString>) -> Result<Vec<String>, Stop> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| {
            let text = format!("the argument `{}` is not UTF-8\n", word.to_string_lossy());
            Stop { text, to_stderr: true, code: 2 }
        })
    };
    words.into_iter().map(text).collect()
}

fn print(stop: &Stop) -> ExitCode {
    // A closed pipe leaves nothing to say and nowhere to say it.
    let _ = if stop.to_stderr {
        std::io::stderr().write_all(stop.text.as_bytes())
    } else {
        std::io::stdout().write_all(stop.text.as_bytes())
    };
    ExitCode::from(stop.code)
}
