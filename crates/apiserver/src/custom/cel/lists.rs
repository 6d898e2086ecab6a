//! Functions of lists.

use jiff::SignedDuration;

use super::eval::{Evaluator, Fail};
use super::numbers;
use super::value::{List, Val};
use crate::custom::schema::Schema;

pub fn call<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    name: &str,
    of: &List<'a>,
    rest: &[Val<'a>],
) -> Result<Val<'a>, Fail> {
    let items = evaluator.items(of)?;
    let int = |found: Option<usize>| Val::Int(found.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1));
    match (name, rest) {
        ("join", []) => joined_text(evaluator, &items, ""),
        ("join", [Val::Text(with)]) => joined_text(evaluator, &items, with),
        ("isSorted", []) => {
            let mut sorted = true;
            for pair in items.windows(2) {
                sorted &= numbers::compare(&pair[0], &pair[1]).ok_or_else(Fail::overload)?.is_le();
            }
            Ok(Val::Bool(sorted))
        }
        ("min" | "max", []) => extreme(items, name == "max"),
        ("sum", []) => {
            let mut items = items.into_iter();
            let first = items.next().unwrap_or_else(|| zero(of));
            items.try_fold(first, |sum, item| numbers::arithmetic('+', &sum, &item))
        }
        ("indexOf", [wanted]) => position(evaluator, items.iter(), wanted).map(int),
        ("lastIndexOf", [wanted]) => {
            let found = position(evaluator, items.iter().rev(), wanted)?;
            Ok(int(found.map(|from_end| items.len() - 1 - from_end)))
        }
        ("reverse", []) => Ok(Val::list(items.into_iter().rev().collect())),
        ("sort", []) => sorted(evaluator, items),
        ("distinct", []) => {
            let mut out: Vec<Val<'a>> = Vec::new();
            for item in items {
                if position(evaluator, out.iter(), &item)?.is_none() {
                    out.push(item);
                }
            }
            Ok(Val::list(out))
        }
        ("flatten", []) => flat(evaluator, items, 1).map(Val::list),
        ("flatten", [Val::Int(levels)]) => match usize::try_from(*levels) {
            Ok(levels) => flat(evaluator, items, levels).map(Val::list),
            Err(_) => Err(Fail::new("level must be non-negative")),
        },
        ("slice", [Val::Int(from), Val::Int(to)]) => {
            let range = usize::try_from(*from).ok().zip(usize::try_from(*to).ok());
            let part = range.and_then(|(from, to)| items.get(from..to));
            let bad = || Fail::new(format!("cannot slice({from}, {to}), list is length {}", items.len()));
            part.map(|part| Val::list(part.to_vec())).ok_or_else(bad)
        }
        _ => Err(Fail::overload()),
    }
}

/// The sum of no elements: of what kind it is only the schema knows.
fn zero<'a>(of: &List<'a>) -> Val<'a> {
    let items = of.schema().and_then(Schema::items);
    match items.map(|items| (items.type_.as_str(), items.format.as_str())) {
        Some(("number", _)) => Val::Double(0.0),
        Some(("string", "duration")) => Val::Span(SignedDuration::ZERO),
        _ => Val::Int(0),
    }
}

pub fn contains<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    list: &List<'a>,
    wanted: &Val<'a>,
) -> Result<bool, Fail> {
    let items = evaluator.items(list)?;
    position(evaluator, items.iter(), wanted).map(|found| found.is_some())
}

pub fn sets<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    name: &str,
    one: &List<'a>,
    other: &List<'a>,
) -> Result<bool, Fail> {
    let (one, other) = (evaluator.items(one)?, evaluator.items(other)?);
    match name {
        "contains" => within(evaluator, &other, &one),
        "equivalent" => Ok(within(evaluator, &other, &one)? && within(evaluator, &one, &other)?),
        "intersects" => {
            for item in &other {
                if position(evaluator, one.iter(), item)?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Err(Fail::overload()),
    }
}

/// Whether everything in one list is in the other.
fn within<'a>(evaluator: &mut Evaluator<'a, '_>, one: &[Val<'a>], other: &[Val<'a>]) -> Result<bool, Fail> {
    for item in one {
        if position(evaluator, other.iter(), item)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Every comparison is paid for.
fn position<'a: 'v, 'v>(
    evaluator: &mut Evaluator<'a, '_>,
    items: impl Iterator<Item = &'v Val<'a>>,
    wanted: &Val<'a>,
) -> Result<Option<usize>, Fail> {
    for (index, item) in items.enumerate() {
        let mut spent = 0;
        let same = item.equals(wanted, &mut spent);
        evaluator.spend(spent)?;
        if same {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Elements of lists in a list instead of these, level by level.
fn flat<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    mut items: Vec<Val<'a>>,
    levels: usize,
) -> Result<Vec<Val<'a>>, Fail> {
    for _ in 0..levels {
        if !items.iter().any(|item| matches!(item, Val::List(_))) {
            break;
        }
        let mut next = Vec::new();
        for item in items {
            evaluator.spend(1 + item.weight())?;
            match item {
                Val::List(list) => next.extend(evaluator.items(&list)?),
                item => next.push(item),
            }
        }
        items = next;
    }
    Ok(items)
}

fn extreme(items: Vec<Val<'_>>, largest: bool) -> Result<Val<'_>, Fail> {
    let mut items = items.into_iter();
    let name = if largest { "max" } else { "min" };
    let mut best = items.next().ok_or_else(|| Fail::new(format!("{name} called on empty list")))?;
    for item in items {
        let order = numbers::compare(&item, &best).ok_or_else(Fail::overload)?;
        if (largest && order.is_gt()) || (!largest && order.is_lt()) {
            best = item;
        }
    }
    Ok(best)
}

fn sorted<'a>(evaluator: &mut Evaluator<'a, '_>, items: Vec<Val<'a>>) -> Result<Val<'a>, Fail> {
    let by_itself = items.into_iter().map(|item| (item.clone(), item)).collect();
    sorted_by(evaluator, by_itself)
}

/// The second of each pair, in the order of the first.
pub fn sorted_by<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    mut pairs: Vec<(Val<'a>, Val<'a>)>,
) -> Result<Val<'a>, Fail> {
    let length = pairs.len() as u64;
    evaluator.spend(length.saturating_mul(u64::from(length.max(1).ilog2()) + 1))?;
    let comparable = pairs.windows(2).all(|pair| numbers::compare(&pair[0].0, &pair[1].0).is_some());
    if !comparable {
        return Err(Fail::overload());
    }
    pairs.sort_by(|one, other| numbers::compare(&one.0, &other.0).unwrap_or(std::cmp::Ordering::Equal));
    Ok(Val::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn joined_text<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    items: &[Val<'a>],
    with: &str,
) -> Result<Val<'a>, Fail> {
    let mut parts: Vec<&str> = Vec::with_capacity(items.len());
    for item in items {
        let Val::Text(text) = item else { return Err(Fail::overload()) };
        parts.push(text);
    }
    let size = parts.iter().map(|part| part.len() + with.len()).fold(0, usize::saturating_add);
    evaluator.spend(size as u64 / 10)?;
    Ok(Val::text(parts.join(with)))
}
