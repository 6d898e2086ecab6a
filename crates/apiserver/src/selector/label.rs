//! `a=b, c in (d, e), !f`: the text form of label selectors.

use bowline_api::name::{label_value_errors, qualified_name_errors};

use crate::status::Status;
use std::collections::BTreeMap;

#[derive(Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    Greater,
    Less,
}

impl Requirement {
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = || value.is_some_and(|v| self.values.contains(v));
        let numbers = || Some((value?.parse::<i64>().ok()?, self.values.first()?.parse::<i64>().ok()?));
        match self.operator {
            Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Greater => numbers().is_some_and(|(have, want)| have > want),
            Operator::Less => numbers().is_some_and(|(have, want)| have < want),
        }
    }
}

pub fn parse(text: &str) -> Result<Vec<Requirement>, Status> {
    let refused = |why: String| Status::bad_request(format!("unable to parse requirement: {why}"));
    split(text).into_iter().map(|part| requirement(part).map_err(refused)).collect()
}

/// At commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let (key, operator, values) = if let Some(key) = text.strip_prefix('!') {
        (key.trim(), Operator::Absent, Vec::new())
    } else if let Some((head, list)) = text.split_once('(') {
        let list = list.strip_suffix(')').ok_or_else(|| format!("found {text:?}, expected: ')'"))?;
        let values = list.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, word) = head.trim().rsplit_once(char::is_whitespace).unwrap_or((head.trim(), ""));
        let operator = match word {
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        (key.trim(), operator, values)
    } else if let Some((key, value)) = text.split_once("!=") {
        (key.trim(), Operator::NotIn, vec![value.trim().to_owned()])
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key.trim(), Operator::In, vec![value.trim().to_owned()])
    } else if let Some((key, value)) = text.split_once('>') {
        (key.trim(), Operator::Greater, vec![value.trim().to_owned()])
    } else if let Some((key, value)) = text.split_once('<') {
        (key.trim(), Operator::Less, vec![value.trim().to_owned()])
    } else {
        (text, Operator::Exists, Vec::new())
    };
    if let Some(error) = qualified_name_errors(key).first() {
        return Err(format!("key: Invalid value: {key:?}: {error}"));
    }
    let compares = matches!(operator, Operator::Greater | Operator::Less);
    for value in &values {
        if let Some(error) = label_value_errors(value).first() {
            return Err(format!("values[0][{key}]: Invalid value: {value:?}: {error}"));
        }
        if compares && value.parse::<i64>().is_err() {
            return Err(format!("for 'Gt', 'Lt' operators, the value must be an integer, got {value:?}"));
        }
    }
    Ok(Requirement { key: key.to_owned(), operator, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let labels: BTreeMap<String, String> = [("app", "web"), ("tier", "a"), ("n", "5"), ("empty", "")]
            .map(|(k, v)| (k.into(), v.into()))
            .into();
        let cases = [
            ("", true),
            ("app=web", true),
            ("app==web,tier=a", true),
            ("app = web , tier!=b", true),
            ("app!=web", false),
            ("missing!=x", true),
            ("app in (web, db)", true),
            ("app in (db),tier=a", false),
            ("app notin (db,cache),tier in (a)", true),
            ("missing notin (x)", true),
            ("app", true),
            ("missing", false),
            ("!missing", true),
            ("!app", false),
            ("n>4", true),
            ("n<5", false),
            ("empty=", true),
            ("app=", false),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text).unwrap().iter().all(|r| r.matches(&labels)), want, "{text}");
        }
        for text in ["app in web", "app in (web", "=x", "a b", "app=a b", "n>x", "-a=b"] {
            assert_eq!(parse(text).unwrap_err().code, 400, "{text}");
        }
    }
}
