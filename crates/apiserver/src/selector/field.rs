//! `metadata.name=x,spec.nodeName!=y`: selectors on the few fields a kind offers.

use crate::registry::Kind;
use crate::status::Status;
use crate::store::Stored;

#[derive(Debug, PartialEq)]
pub struct Requirement {
    label: String,
    value: String,
    equal: bool,
}

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";
/// Those that others begin with stand behind them.
const OPERATORS: [(&str, bool); 3] = [("!=", false), ("==", true), ("=", true)];

impl Requirement {
    pub fn matches(&self, object: &Stored, kind: &dyn Kind) -> bool {
        let value = match self.label.as_str() {
            NAME => &object.key.name,
            NAMESPACE => &object.key.namespace,
            label => {
                let fields = object.fields(|json| kind.field_labels(json).unwrap_or_default());
                let found = fields.iter().find(|(known, _)| *known == label);
                found.map_or("", |(_, value)| value)
            }
        };
        (value == self.value) == self.equal
    }
}

/// The selector of one name, whatever letters it has.
pub fn of_name(name: &str) -> String {
    let escaped = name.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
    format!("{NAME}={escaped}")
}

pub fn parse(text: &str, kind: &dyn Kind) -> Result<Vec<Requirement>, Status> {
    let wanted = requirements(text).map_err(Status::bad_request)?;
    let own = &kind.info().field_labels;
    for Requirement { label, .. } in &wanted {
        if label != NAME && label != NAMESPACE && !own.iter().any(|known| known == label) {
            let why = if own.is_empty() && kind.custom().is_none() {
                format!("{label:?} is not a known field selector: only {NAME:?}, {NAMESPACE:?}")
            } else {
                format!("field label not supported: {label}")
            };
            return Err(Status::bad_request(why));
        }
    }
    Ok(wanted)
}

/// What a text asks for, whatever the kind. Upstream sorts it, which shows in what it complains of first.
fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut terms = terms(text);
    terms.sort_unstable();
    let wanted = terms.into_iter().filter(|term| !term.is_empty()).map(|term| {
        let (label, equal, value) =
            split(term).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
        Ok(Requirement { label: label.to_owned(), value: unescaped(value)?, equal })
    });
    wanted.collect()
}

/// Parts between commas that are not escaped.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split(term: &str) -> Option<(&str, bool, &str)> {
    let at = |(at, _)| {
        let rest = &term[at..];
        let found = OPERATORS.iter().find(|(operator, _)| rest.starts_with(operator));
        found.map(|(operator, equal)| (&term[..at], *equal, &rest[operator.len()..]))
    };
    term.char_indices().find_map(at)
}

fn unescaped(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                other => {
                    let shown = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid field selector: invalid escape sequence: \\{shown}"));
                }
            },
            ',' | '=' => {
                let code = u32::from(letter);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As upstream's server answered.
    #[test]
    fn what_is_asked_for() {
        let read = |text: &str| {
            let wanted = requirements(text)?;
            let shown = wanted
                .iter()
                .map(|one| format!("{}{}{}", one.label, if one.equal { "=" } else { "!=" }, one.value));
            Ok::<_, String>(shown.collect::<Vec<_>>().join(";"))
        };
        let fine = [
            ("", ""),
            (",,", ""),
            ("b=2,a==1", "a=1;b=2"),
            ("a!=1", "a!=1"),
            ("a = 1", "a = 1"),
            (r"a=x\,y\=z\\", r"a=x,y=z\"),
            ("=b", "=b"),
        ];
        for (text, want) in fine {
            assert_eq!(read(text).as_deref(), Ok(want), "{text}");
        }
        let wrong = [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("b=1,a>2", "invalid selector: 'b=1,a>2'; can't understand 'a>2'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
            (r"a=b\x", r"invalid field selector: invalid escape sequence: \x"),
        ];
        for (text, want) in wrong {
            assert_eq!(read(text), Err(want.to_owned()), "{text}");
        }
    }
}
