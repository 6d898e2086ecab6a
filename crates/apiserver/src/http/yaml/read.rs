//! From events to a JSON value: no recursion, bounded depth, bounded aliases.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Value};

use super::scalar;
use crate::json::{DEPTH_MAX, depth};

/// What anchors and aliases may copy all together; a few lines could name billions of values.
const COPIED_MAX: usize = 300_000;
/// As many bytes of text weigh as much as a value.
const LETTERS: usize = 32;
/// A map takes room for several members as soon as it has one.
const MAP_WEIGHT: usize = 8;

/// In the words of upstream's library.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

#[derive(Debug, Default, PartialEq)]
pub struct Document {
    pub value: Value,
    /// Lines and names of keys that stand twice in one map; the last one counts.
    pub duplicates: Vec<(usize, String)>,
}

impl Document {
    /// What is to be said of duplicates, one by one.
    pub fn warnings(&self) -> Vec<String> {
        let told = |(line, key): &(usize, String)| format!("line {line}: key {key:?} already set in map");
        self.duplicates.iter().map(told).collect()
    }

    /// What a strict reader says of them.
    pub fn strict_error(&self) -> Option<String> {
        let lines: Vec<String> = self.warnings().iter().map(|line| format!("\n  {line}")).collect();
        (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{}", lines.concat()))
    }
}

/// Reads the first document; nothing at all is null.
pub fn read(body: &[u8]) -> Result<Document, YamlError> {
    let text = std::str::from_utf8(body).map_err(|_| fail("yaml: invalid leading UTF-8 octet"))?;
    let mut options =
        granit_parser::options! { flow_nesting_limit: DEPTH_MAX, block_nesting_limit: DEPTH_MAX };
    options.set_emit_comments(false);
    let mut builder = Builder { source: text, ..Builder::default() };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| explained(&error, text))?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        builder.take(event, span)?;
    }
    Ok(builder.document)
}

fn fail(text: impl Into<String>) -> YamlError {
    YamlError(text.into())
}

#[derive(Default)]
struct Builder<'s> {
    source: &'s str,
    open: Vec<Frame>,
    anchors: HashMap<usize, Value>,
    /// The weight of all copies so far.
    copied: usize,
    document: Document,
}

/// A collection that is not closed yet.
struct Frame {
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Value>),
    Map { object: Map<String, Value>, key: Option<Key> },
}

/// A key whose value is to come.
enum Key {
    Name(String, usize),
    /// `<<`: the value's members come in.
    Merge(usize),
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let merges = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
                let value = meaning(&text, style, tag.as_deref())?;
                self.keep(anchor, &value)?;
                self.place(value, merges, line)
            }
            Event::Alias(anchor) => {
                let value = self.resolve(anchor, span)?;
                self.place(value, false, line)
            }
            Event::SequenceStart(_, anchor, _) => self.open(anchor, Content::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                self.open(anchor, Content::Map { object: Map::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.open.pop() else { return Ok(()) };
                let value = match frame.content {
                    Content::List(items) => Value::Array(items),
                    Content::Map { object, .. } => Value::Object(object),
                };
                self.keep(frame.anchor, &value)?;
                self.place(value, false, line)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, anchor: usize, content: Content) -> Result<(), YamlError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep());
        }
        self.open.push(Frame { anchor, content });
        Ok(())
    }

    /// Anchors count from one.
    fn keep(&mut self, anchor: usize, value: &Value) -> Result<(), YamlError> {
        if anchor > 0 {
            self.copied = charged(self.copied, value)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(())
    }

    fn resolve(&mut self, anchor: usize, span: Span) -> Result<Value, YamlError> {
        let name = span.slice(self.source).unwrap_or_default().trim_start_matches('*');
        let value = self.anchors.get(&anchor);
        let value = value.ok_or_else(|| fail(format!("yaml: anchor '{name}' value contains itself")))?;
        self.copied = charged(self.copied, value)?;
        if self.open.len() + depth(value) > DEPTH_MAX {
            return Err(too_deep());
        }
        Ok(value.clone())
    }

    fn place(&mut self, value: Value, merges: bool, line: usize) -> Result<(), YamlError> {
        match self.open.last_mut().map(|frame| &mut frame.content) {
            None => self.document.value = value,
            Some(Content::List(items)) => items.push(value),
            Some(Content::Map { object, key }) => match key.take() {
                None if merges => *key = Some(Key::Merge(line)),
                None => *key = Some(Key::Name(name(&value)?, line)),
                Some(Key::Name(name, line)) => {
                    if object.insert(name.clone(), value).is_some() {
                        self.document.duplicates.push((line, name));
                    }
                }
                Some(Key::Merge(line)) => {
                    for name in merge(object, value)? {
                        self.document.duplicates.push((line, name));
                    }
                }
            },
        }
        Ok(())
    }
}

fn too_deep() -> YamlError {
    fail(format!("yaml: exceeded max depth of {DEPTH_MAX}"))
}

/// What was copied with one more copy, if that is not too much.
fn charged(copied: usize, value: &Value) -> Result<usize, YamlError> {
    let copied = copied + weight(value);
    if copied > COPIED_MAX { Err(fail("yaml: document contains excessive aliasing")) } else { Ok(copied) }
}

/// What a copy costs, in values. Without recursion too deep for a value that is in a document already.
fn weight(value: &Value) -> usize {
    let text = |text: &str| 1 + text.len() / LETTERS;
    match value {
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(object) => {
            MAP_WEIGHT + object.iter().map(|(name, value)| text(name) + weight(value)).sum::<usize>()
        }
        Value::String(content) => text(content),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// Of several maps the first one counts, and none of them against a key that is there later.
fn merge(object: &mut Map<String, Value>, value: Value) -> Result<Vec<String>, YamlError> {
    let refused = || fail("yaml: map merge requires map or sequence of maps as the value");
    let maps = match value {
        Value::Array(maps) => maps,
        one => vec![one],
    };
    let mut twice = Vec::new();
    for map in maps.into_iter().rev() {
        let Value::Object(map) = map else { return Err(refused()) };
        for (name, value) in map {
            if object.insert(name.clone(), value).is_some() {
                twice.push(name);
            }
        }
    }
    Ok(twice)
}

/// JSON has only text for names.
fn name(key: &Value) -> Result<String, YamlError> {
    match key {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(yes) => Ok(yes.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null => Err(fail("unsupported map key of type: %!s(<nil>), key: <nil>")),
        other => Err(fail(format!("yaml: invalid map key: {other}"))),
    }
}

fn meaning(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, YamlError> {
    let own = tag.and_then(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:"));
    match (own, tag) {
        (Some(tag), _) => scalar::tagged(&tag, text).map_err(|why| fail(format!("yaml: {why}"))),
        (None, Some(_)) => Ok(text.into()),
        (None, None) if style != ScalarStyle::Plain => Ok(text.into()),
        (None, None) => match scalar::is_unbounded(text) {
            Some(number) => Err(fail(format!("json: unsupported value: {number}"))),
            None => Ok(scalar::plain(text)),
        },
    }
}

/// Upstream's library is libyaml at heart; where it has words for a problem these are they.
fn explained(error: &ScanError, source: &str) -> YamlError {
    let at = error.marker();
    let text = match error.kind() {
        ErrorKind::UnknownAnchor => {
            let rest = source.get(at.byte_offset().unwrap_or_default()..).unwrap_or_default();
            let name: String = rest
                .trim_start_matches('*')
                .chars()
                .take_while(|c| c.is_alphanumeric() || "_-".contains(*c))
                .collect();
            return fail(format!("yaml: unknown anchor '{name}' referenced"));
        }
        ErrorKind::RecursionLimitExceeded => return too_deep(),
        ErrorKind::UnclosedQuotedScalar => "found unexpected end of stream".into(),
        ErrorKind::UnexpectedCharacter { .. }
        | ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation => "found character that cannot start any token".into(),
        ErrorKind::MappingValueNotAllowed => "mapping values are not allowed in this context".into(),
        ErrorKind::ExpectedNodeContent | ErrorKind::UnclosedFlowCollection { .. } => {
            "did not find expected node content".into()
        }
        ErrorKind::ExpectedBlockMappingKey => "did not find expected key".into(),
        ErrorKind::ExpectedBlockSequenceEntry => "did not find expected '-' indicator".into(),
        ErrorKind::ExpectedFlowSequenceSeparator => "did not find expected ',' or ']'".into(),
        ErrorKind::ExpectedFlowMappingSeparator => "did not find expected ',' or '}'".into(),
        ErrorKind::SimpleKeyExpected => "could not find expected ':'".into(),
        ErrorKind::UnknownQuotedScalarEscape => "found unknown escape character".into(),
        other => other.to_string(),
    };
    // It leaves out the first line.
    let line = if at.line() > 1 { format!("line {}: ", at.line()) } else { String::new() };
    fail(format!("yaml: {line}{text}"))
}
