//! Splits a command line into flags and values by the rules of upstream's parsers. Pure.

use super::catalog::{Catalog, RAW, VERSION};
use super::values::boolean;

/// Which of upstream's parsers a program uses, and what it does with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Go's own `flag`: one dash is as good as two, and the first word that is no flag ends the parsing. The sidecars
    /// other than the provisioner.
    GoFlag,
    /// `pflag` without a command: two dashes, one for the short form; words between flags are ignored. The provisioner.
    Pflag,
    /// `pflag` below a command of `cobra`: words between flags are errors, `_` in a name is `-`. The kube-* programs and the kubelet.
    Cobra,
}

impl Syntax {
    /// Exit code for a command line that cannot be used.
    pub fn error_code(self) -> u8 {
        match self {
            Self::GoFlag | Self::Pflag => 2,
            Self::Cobra => 1,
        }
    }

    /// A flag as this parser's messages write it.
    pub fn written(self, name: &str) -> String {
        if self == Self::GoFlag { format!("-{name}") } else { format!("--{name}") }
    }

    fn unknown(self, name: &str, catalog: &Catalog) -> String {
        let message = match self {
            Self::GoFlag => format!("flag provided but not defined: -{name}"),
            Self::Pflag | Self::Cobra => format!("unknown flag: --{name}"),
        };
        self.with_nearest(message, name, catalog)
    }

    fn with_nearest(self, message: String, name: &str, catalog: &Catalog) -> String {
        match catalog.nearest(name) {
            Some(near) => format!("{message}; did you mean {}?", self.written(near)),
            None => message,
        }
    }

    fn no_value(self, name: &str) -> String {
        format!("flag needs an argument: {}", self.written(name))
    }

    /// What is said of a value that a flag does not take.
    pub fn invalid(self, name: &str, value: &str, why: &str) -> String {
        match self {
            Self::GoFlag => format!("invalid value {value:?} for flag -{name}: {why}"),
            Self::Pflag | Self::Cobra => format!("invalid argument {value:?} for \"--{name}\" flag: {why}"),
        }
    }
}

/// A flag as given. Booleans carry `true` or `false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub name: String,
    pub value: String,
}

/// Reads `words`, which start after the program's name.
pub(super) fn split(syntax: Syntax, catalog: &Catalog, words: &[String]) -> Result<Vec<Given>, String> {
    let mut given = Vec::new();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "--" {
            return end(syntax, catalog, words.next()).map(|()| given);
        }
        let Some(dashed) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            match syntax {
                // Go's parser leaves this word and all that follow it to the program, which looks at none of them.
                Syntax::GoFlag => return Ok(given),
                Syntax::Pflag => continue,
                Syntax::Cobra => return end(syntax, catalog, Some(word)).map(|()| given),
            }
        };
        match (syntax, dashed.strip_prefix('-')) {
            (_, Some(long)) => given.push(long_flag(syntax, catalog, word, long, &mut words)?),
            (Syntax::GoFlag, None) => given.push(long_flag(syntax, catalog, word, dashed, &mut words)?),
            (_, None) => short_flags(syntax, catalog, word, dashed, &mut words, &mut given)?,
        }
    }
    Ok(given)
}

/// A word that is no flag, at the end of what is parsed.
fn end(syntax: Syntax, catalog: &Catalog, word: Option<&str>) -> Result<(), String> {
    match (syntax, word) {
        (Syntax::Cobra, Some(word)) => Err(format!(
            "`{}` takes no arguments, got `{word}`; a boolean takes its value behind `=`, as in --flag=false",
            catalog.program
        )),
        _ => Ok(()),
    }
}

fn long_flag<'a>(
    syntax: Syntax,
    catalog: &Catalog,
    word: &str,
    text: &str,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Result<Given, String> {
    if text.is_empty() || text.starts_with(['-', '=']) {
        return Err(format!("bad flag syntax: {word}"));
    }
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let name = if syntax == Syntax::Cobra { name.replace('_', "-") } else { name.to_owned() };
    let flag = catalog.get(&name).ok_or_else(|| syntax.unknown(&name, catalog))?;
    let value = match value {
        Some(value) => value.to_owned(),
        None if flag.boolean => "true".to_owned(),
        None => rest.next().ok_or_else(|| syntax.no_value(&name))?.to_owned(),
    };
    if syntax == Syntax::Cobra && name == VERSION && value == RAW {
        return Ok(Given { name, value });
    }
    finished(syntax, name, value, flag.boolean)
}

/// `-v5`, `-v=5`, `-v 5`; shorthands of booleans may stand before it in the same word.
fn short_flags<'a>(
    syntax: Syntax,
    catalog: &Catalog,
    word: &str,
    letters: &str,
    rest: &mut impl Iterator<Item = &'a str>,
    given: &mut Vec<Given>,
) -> Result<(), String> {
    let mut letters = letters;
    while let Some(letter) = letters.chars().next() {
        letters = &letters[letter.len_utf8()..];
        let Some((name, flag)) = catalog.short(letter) else {
            let message = format!("unknown shorthand flag: '{letter}' in {word}");
            let meant = word.trim_start_matches('-').split('=').next().unwrap_or_default();
            return Err(syntax.with_nearest(message, meant, catalog));
        };
        let value = if let Some(value) = letters.strip_prefix('=') {
            letters = "";
            value
        } else if flag.boolean {
            "true"
        } else if !letters.is_empty() {
            std::mem::take(&mut letters)
        } else {
            rest.next().ok_or_else(|| format!("flag needs an argument: '{letter}' in {word}"))?
        };
        given.push(finished(syntax, name.to_owned(), value.to_owned(), flag.boolean)?);
    }
    Ok(())
}

fn finished(syntax: Syntax, name: String, value: String, is_boolean: bool) -> Result<Given, String> {
    if !is_boolean {
        return Ok(Given { name, value });
    }
    let parsed = boolean(&value).map_err(|why| match syntax {
        Syntax::GoFlag => format!("invalid boolean value {value:?} for -{name}: {why}"),
        Syntax::Pflag | Syntax::Cobra => syntax.invalid(&name, &value, &why),
    })?;
    Ok(Given { name, value: parsed.to_string() })
}
