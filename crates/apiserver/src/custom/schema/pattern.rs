//! Regular expressions in Go's syntax, which is nearly that of the `regex` crate: both are RE2.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

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
        let compiled = self.compiled.get_or_init(|| compile(&self.text).ok());
        compiled.as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

/// An expression as Go reads it. The error begins as Go's does.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    RegexBuilder::new(&translated).size_limit(COMPILED_MAX).build().map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        format!("error parsing regexp: {}: `{pattern}`", last.trim_start_matches("error: "))
    })
}

/// The differences: classes of letters are ASCII in Go, brackets and doubled signs inside a class mean themselves,
/// and so does a brace that counts nothing.
fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut out, false),
            '[' => class(&mut rest, &mut out, pattern)?,
            '{' if !counts(rest.clone()) => out.push_str("\\{"),
            '}' if !out_counts(&out) => out.push_str("\\}"),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Whether what follows an opening brace is `n}`, `n,}` or `n,m}`.
fn counts(rest: Peekable<Chars<'_>>) -> bool {
    let inside: String = rest.take_while(|c| *c != '}').collect();
    let (low, high) = inside.split_once(',').unwrap_or((&inside, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

/// Whether a closing brace ends a count that was kept.
fn out_counts(out: &str) -> bool {
    let tail = out.trim_end_matches(|c: char| c.is_ascii_digit() || c == ',');
    tail.len() < out.len() && tail.ends_with('{') && !tail.ends_with("\\{")
}

/// What follows a backslash.
fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String, in_class: bool) {
    let (open, close) = if in_class { ("", "") } else { ("[", "]") };
    match rest.next() {
        Some('d') => _ = write!(out, "{open}0-9{close}"),
        Some('w') => _ = write!(out, "{open}0-9A-Za-z_{close}"),
        Some('s') => _ = write!(out, "{open}\\t\\n\\f\\r {close}"),
        Some('D') => out.push_str("[^0-9]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
        Some(c @ ('b' | 'B')) if !in_class => _ = write!(out, "(?-u:\\{c})"),
        Some('Q') => quoted(rest, out),
        Some(c) => {
            out.push('\\');
            out.push(c);
            // A name or a number in braces belongs to the escape.
            if matches!(c, 'p' | 'P' | 'x') && rest.next_if_eq(&'{').is_some() {
                out.push('{');
                out.extend(rest.by_ref().take_while(|c| *c != '}'));
                out.push('}');
            }
        }
        None => out.push('\\'),
    }
}

/// Everything up to `\E` as it is.
fn quoted(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    let all: String = rest.clone().collect();
    let literal = all.split("\\E").next().unwrap_or_default();
    out.push_str(&regex::escape(literal));
    let skipped = literal.chars().count() + 2;
    rest.by_ref().take(skipped).for_each(drop);
}

/// What follows an opening bracket, to the closing one.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String, pattern: &str) -> Result<(), String> {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    loop {
        match rest.next() {
            None => return Err(format!("error parsing regexp: missing closing ]: `{pattern}`")),
            Some(']') if !first => {
                out.push(']');
                return Ok(());
            }
            Some('[') if rest.peek() == Some(&':') => {
                out.push('[');
                for c in rest.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            Some('\\') => escape(rest, out, true),
            Some(c @ ('[' | ']' | '&' | '~')) => _ = write!(out, "\\{c}"),
            // A dash that is doubled would be a difference of classes.
            Some('-') if rest.peek() == Some(&'-') => out.push_str("\\-"),
            Some(c) => out.push(c),
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen with Go's regexp package.
    #[test]
    fn matches_as_go_does() {
        let table = [
            ("^[a-z]+$", "abc", true),
            ("^[a-z]+$", "abC", false),
            ("b", "abc", true),
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w+$", "é", false),
            (r"^[\w-]+$", "a-b_9", true),
            (r"^[\W]+$", "é!", true),
            (r"^\S+$", "a b", false),
            (r"^[[a]+$", "[a", true),
            (r"^[]a]+$", "]a", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[a--]+$", "-", true),
            (r"^[[:alpha:]]+$", "aZ", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^a{2,3}$", "aaaa", false),
            (r"^a{,3}$", "a{,3}", true),
            (r"^{x}$", "{x}", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"(?i)^ABC$", "abc", true),
            (r"^\p{L}+$", "é", true),
            (r"^\x{e9}$", "é", true),
            (r"^.$", "é", true),
            (r"\bfoo\b", "a foo b", true),
            ("^a$", "a\n", false),
        ];
        for (pattern, text, want) in table {
            let compiled = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(compiled.is_match(text), want, "{pattern} on {text}");
        }
        assert_eq!(compile("[").unwrap_err(), "error parsing regexp: missing closing ]: `[`");
        for bad in ["(", "*a", "(?<x", r"\pX", "x{1001}{1001}{1001}"] {
            assert!(compile(bad).is_err(), "{bad}");
        }
    }
}
