//! Regular expressions in Go's syntax, which is nearly that of the `regex` crate: both are RE2.

mod class;
mod escape;
#[cfg(test)]
mod tests;
mod translate;

use std::sync::OnceLock;

use regex::{Error, Regex, RegexBuilder};

/// A compiled expression may be this large; matching takes time linear in the text whatever it is.
const COMPILED_MAX: usize = 4 << 20;

/// An expression that is compiled when it is first used. An empty one matches everything.
#[derive(Debug, Clone, Default)]
pub struct Pattern {
    pub text: String,
    compiled: OnceLock<Option<Regex>>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }
}

impl Pattern {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether it matches anywhere in a text. One that does not compile was refused with its definition.
    pub fn matches(&self, text: &str) -> bool {
        self.compiled().is_none_or(|regex| regex.is_match(text))
    }

    /// `None` if it does not compile.
    pub fn compiled(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| compile(&self.text).ok()).as_ref()
    }
}

/// An expression as Go reads it, and in Go's words what is wrong with it.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate::translate(pattern).map_err(|fault| fault.to_string())?;
    RegexBuilder::new(&translated).size_limit(COMPILED_MAX).build().map_err(|error| match error {
        Error::CompiledTooBig(_) => "error parsing regexp: expression too large".to_owned(),
        // What is left are names that only tables know, of scripts and categories.
        _ => format!("error parsing regexp: invalid character class range: `{pattern}`"),
    })
}
