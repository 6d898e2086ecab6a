//! `a=b, c in (d, e), !f`: the text form of label selectors.

use std::collections::BTreeMap;

use bowline_api::name::{label_value_errors, qualified_name_errors};

use super::lexer::{Lexer, Token};
use crate::status::Status;

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

/// In the grammar and with the complaints of upstream's parser.
pub fn parse(text: &str) -> Result<Vec<Requirement>, Status> {
    let mut lexer = Lexer::new(text);
    let mut all = Vec::new();
    loop {
        match lexer.peek() {
            (Token::End, _) => return Ok(all),
            (Token::Word | Token::Not, _) => {}
            (_, found) => {
                return refuse(format!("found '{found}', expected: !, identifier, or 'end of string'"));
            }
        }
        match requirement(&mut lexer) {
            Ok(requirement) => all.push(requirement),
            Err(why) => return refuse(format!("unable to parse requirement: {why}")),
        }
        match lexer.value() {
            (Token::End, _) => return Ok(all),
            (Token::Comma, _) => match lexer.peek() {
                (Token::Word | Token::Not, _) => {}
                (_, found) => return refuse(format!("found '{found}', expected: identifier after ','")),
            },
            (_, found) => return refuse(format!("found '{found}', expected: ',' or 'end of string'")),
        }
    }
}

fn refuse<T>(why: String) -> Result<T, Status> {
    Err(Status::bad_request(why))
}

fn requirement(lexer: &mut Lexer<'_>) -> Result<Requirement, String> {
    let (mut token, mut key) = lexer.value();
    let absent = token == Token::Not;
    if absent {
        (token, key) = lexer.value();
    }
    if token != Token::Word {
        return Err(format!("found '{key}', expected: identifier"));
    }
    if let Some(error) = qualified_name_errors(key).first() {
        // Upstream does not say where.
        return Err(format!("<nil>: Invalid value: {key:?}: {error}"));
    }
    let (operator, values) = if absent {
        (Operator::Absent, Vec::new())
    } else if matches!(lexer.peek().0, Token::End | Token::Comma) {
        (Operator::Exists, Vec::new())
    } else {
        comparison(lexer)?
    };
    check_values(key, operator, &values)?;
    Ok(Requirement { key: key.to_owned(), operator, values })
}

fn comparison(lexer: &mut Lexer<'_>) -> Result<(Operator, Vec<String>), String> {
    let (token, found) = lexer.operator();
    Ok(match token {
        Token::In => (Operator::In, listed(lexer)?),
        Token::NotIn => (Operator::NotIn, listed(lexer)?),
        Token::Equal | Token::DoubleEqual => (Operator::In, vec![single(lexer)?]),
        Token::NotEqual => (Operator::NotIn, vec![single(lexer)?]),
        Token::Greater => (Operator::Greater, vec![single(lexer)?]),
        Token::Less => (Operator::Less, vec![single(lexer)?]),
        _ => return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt")),
    })
}

/// The value after a sign; nothing is the empty value.
fn single(lexer: &mut Lexer<'_>) -> Result<String, String> {
    if matches!(lexer.peek().0, Token::End | Token::Comma) {
        return Ok(String::new());
    }
    match lexer.value() {
        (Token::Word, value) => Ok(value.to_owned()),
        (_, found) => Err(format!("found '{found}', expected: identifier")),
    }
}

/// Values in parentheses. An omitted one is the empty value.
fn listed(lexer: &mut Lexer<'_>) -> Result<Vec<String>, String> {
    let (token, found) = lexer.value();
    if token != Token::Open {
        return Err(format!("found '{found}' expected: '('"));
    }
    let mut values = Vec::new();
    loop {
        let value = match lexer.peek() {
            (Token::Word, value) => {
                lexer.value();
                value
            }
            (Token::Comma | Token::Close, _) => "",
            (_, found) => return Err(format!("found '{found}', expected: ',', ')' or identifier")),
        };
        values.push(value.to_owned());
        match lexer.value() {
            (Token::Comma, _) => {}
            (Token::Close, _) => return Ok(values),
            (_, found) => return Err(format!("found '{found}', expected: ',' or ')'")),
        }
    }
}

fn check_values(key: &str, operator: Operator, values: &[String]) -> Result<(), String> {
    let compares = matches!(operator, Operator::Greater | Operator::Less);
    for (position, value) in values.iter().enumerate() {
        if compares && value.parse::<i64>().is_err() {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            return Err(format!("values[{position}]: Invalid value: {value:?}: {why}"));
        }
        if let Some(error) = label_value_errors(value).first() {
            return Err(format!("values[{position}][{key}]: Invalid value: {value:?}: {error}"));
        }
    }
    Ok(())
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
    }

    /// As upstream's server answered.
    #[test]
    fn refusals() {
        let cases = [
            ("tier in gold", "unable to parse requirement: found 'gold' expected: '('"),
            ("a in", "unable to parse requirement: found '' expected: '('"),
            ("a notin (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (b,c", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a,", "found '', expected: identifier after ','"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ];
        for (text, want) in cases {
            let refused = parse(text).unwrap_err();
            assert_eq!((refused.code, refused.message.as_str()), (400, want), "{text}");
        }
        for text in ["a b", "app=a b", "-a=b", "!", "a in (b c)"] {
            assert_eq!(parse(text).unwrap_err().code, 400, "{text}");
        }
        assert!(parse("a in ()").is_ok() && parse("in in (in, notin)").is_ok());
    }
}
