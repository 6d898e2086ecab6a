//! Functions of text. Positions count characters.

use super::eval::{Evaluator, Fail};
use super::value::Val;

pub fn call<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    name: &str,
    of: &str,
    rest: &[Val<'a>],
) -> Result<Val<'a>, Fail> {
    let int = |n: usize| Val::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let place = |found: Option<usize>| found.map_or(Val::Int(-1), |byte| int(of[..byte].chars().count()));
    match (name, rest) {
        ("contains", [Val::Text(part)]) => Ok(Val::Bool(of.contains(&**part))),
        ("startsWith", [Val::Text(part)]) => Ok(Val::Bool(of.starts_with(&**part))),
        ("endsWith", [Val::Text(part)]) => Ok(Val::Bool(of.ends_with(&**part))),
        ("matches", [Val::Text(pattern)]) => {
            regex(evaluator, of, pattern).map(|regex| Val::Bool(regex.is_match(of)))
        }
        ("find", [Val::Text(pattern)]) => {
            let regex = regex(evaluator, of, pattern)?;
            Ok(Val::text(regex.find(of).map_or("", |found| found.as_str())))
        }
        ("findAll", [Val::Text(pattern), limit @ ..]) => {
            let regex = regex(evaluator, of, pattern)?;
            let mut all = Vec::new();
            for found in regex.find_iter(of).take(limit_of(limit)?) {
                evaluator.spend(1 + found.len() as u64 / 10)?;
                all.push(Val::text(found.as_str()));
            }
            Ok(Val::list(all))
        }
        ("charAt", [Val::Int(at)]) => {
            let found = usize::try_from(*at).ok().and_then(|at| of.chars().nth(at));
            let end = i64::try_from(of.chars().count()).unwrap_or(i64::MAX);
            match found {
                Some(c) => Ok(Val::text(c.to_string())),
                None if *at == end => Ok(Val::text("")),
                None => Err(Fail::new(format!("index out of range: {at}"))),
            }
        }
        ("indexOf", [Val::Text(part)]) => Ok(place(of.find(&**part))),
        ("indexOf" | "lastIndexOf", [Val::Text(part), Val::Int(from)]) if part.is_empty() => {
            Ok(Val::Int(*from))
        }
        ("indexOf", [Val::Text(part), Val::Int(from)]) => {
            let Some(start) = start_at(of, *from)? else { return Ok(Val::Int(-1)) };
            Ok(place(of[start..].find(&**part).map(|found| start + found)))
        }
        ("lastIndexOf", [Val::Text(part)]) => Ok(place(of.rfind(&**part))),
        ("lastIndexOf", [Val::Text(part), Val::Int(from)]) => {
            let Some(start) = start_at(of, *from)? else { return Ok(Val::Int(-1)) };
            // It may begin here at the latest, so it ends that much later.
            let end = of.len().min(start + part.len());
            Ok(place(of.get(..end).or_else(|| of.get(..start)).and_then(|head| head.rfind(&**part))))
        }
        ("lowerAscii", []) => Ok(Val::text(of.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(of.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(of.trim())),
        ("replace", [Val::Text(old), Val::Text(new), limit @ ..]) => {
            let limit = limit_of(limit)?;
            // The result is paid for before it is made.
            let times = of.matches(&**old).take(limit).count() as u64;
            evaluator.spend(times.saturating_mul(new.len() as u64) / 10)?;
            Ok(Val::text(of.replacen(&**old, new, limit)))
        }
        ("split", [Val::Text(at), limit @ ..]) => {
            let limit = limit_of(limit)?;
            let parts = of.matches(&**at).count().min(limit);
            evaluator.spend(parts as u64)?;
            Ok(Val::list(split(of, at, limit)))
        }
        ("substring", [Val::Int(from)]) => Ok(Val::text(&of[byte_at(of, *from)?..])),
        ("substring", [Val::Int(from), Val::Int(to)]) => {
            let (start, end) = (byte_at(of, *from)?, byte_at(of, *to)?);
            let part = of
                .get(start..end)
                .ok_or_else(|| Fail::new(format!("invalid substring range. start: {from}, end: {to}")))?;
            Ok(Val::text(part))
        }
        _ => Err(Fail::overload()),
    }
}

/// Matching costs in proportion to both texts.
fn regex(evaluator: &mut Evaluator<'_, '_>, text: &str, pattern: &str) -> Result<regex::Regex, Fail> {
    let cost = (text.len() as u64 / 10 + 1).saturating_mul(pattern.len() as u64 / 4 + 1);
    evaluator.spend(cost)?;
    evaluator.regex(pattern)
}

/// Below zero means without a limit.
fn limit_of(limit: &[Val<'_>]) -> Result<usize, Fail> {
    match limit {
        [] => Ok(usize::MAX),
        [Val::Int(limit)] => Ok(usize::try_from(*limit).unwrap_or(usize::MAX)),
        _ => Err(Fail::overload()),
    }
}

fn split<'a>(of: &str, at: &str, limit: usize) -> Vec<Val<'a>> {
    match (limit, at) {
        (0, _) => Vec::new(),
        (limit, "") => {
            let mut parts: Vec<String> = of.chars().map(String::from).collect();
            if parts.len() > limit {
                let last = parts.split_off(limit - 1).concat();
                parts.push(last);
            }
            parts.into_iter().map(Val::text).collect()
        }
        (limit, at) => of.splitn(limit, at).map(Val::text).collect(),
    }
}

/// Where to look from; nothing is found beyond the end.
fn start_at(text: &str, at: i64) -> Result<Option<usize>, Fail> {
    let count = usize::try_from(at).map_err(|_| Fail::new(format!("index out of range: {at}")))?;
    Ok(text.char_indices().nth(count).map(|(byte, _)| byte))
}

fn byte_at(text: &str, at: i64) -> Result<usize, Fail> {
    let missing = || Fail::new(format!("index out of range: {at}"));
    let at = usize::try_from(at).map_err(|_| missing())?;
    let mut places = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
    places.nth(at).ok_or_else(missing)
}

/// Text in quotes, with what would not survive them spelled out.
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        let letter = match c {
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            '\\' | '"' => c,
            other => {
                out.push(other);
                continue;
            }
        };
        out.extend(['\\', letter]);
    }
    out.push('"');
    out
}
