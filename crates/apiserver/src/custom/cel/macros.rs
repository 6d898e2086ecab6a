//! Macros that go through lists and maps.

use super::ast::{Each, What};
use super::eval::{Evaluator, Fail};
use super::lists;
use super::value::{Table, Val};

pub fn each<'a>(evaluator: &mut Evaluator<'a, '_>, each: &'a Each) -> Result<Val<'a>, Fail> {
    let of = evaluator.visit(&each.of)?;
    if matches!(each.what, What::OptMap | What::OptFlatMap) {
        return in_optional(evaluator, each, of);
    }
    evaluator.spend(of.weight())?;
    let pairs = pairs(evaluator, &of)?;
    let single_key = matches!(of, Val::Map(_));
    let depth = evaluator.local.len();
    let mut gathered = Gathered::default();
    for (first, second) in pairs {
        let single = if single_key { first.clone() } else { second.clone() };
        let key = first.clone();
        match &each.names[..] {
            [one] => evaluator.local.push((one, single.clone())),
            [one, two] => evaluator.local.extend([(one.as_str(), first), (two.as_str(), second)]),
            _ => return Err(Fail::overload()),
        }
        let step = gathered.step(evaluator, each, key, single);
        evaluator.local.truncate(depth);
        if step? {
            break;
        }
    }
    if each.what == What::SortBy {
        return lists::sorted_by(evaluator, gathered.pairs);
    }
    gathered.result(each.what)
}

/// What the body makes of the value in an optional one.
fn in_optional<'a>(evaluator: &mut Evaluator<'a, '_>, each: &'a Each, of: Val<'a>) -> Result<Val<'a>, Fail> {
    let (Val::Optional(of), [name]) = (of, &each.names[..]) else { return Err(Fail::overload()) };
    let Some(of) = of else { return Ok(Val::Optional(None)) };
    let depth = evaluator.local.len();
    evaluator.local.push((name, (*of).clone()));
    let made = evaluator.visit(&each.body);
    evaluator.local.truncate(depth);
    match (each.what, made?) {
        (What::OptMap, made) => Ok(Val::Optional(Some(made.into()))),
        (_, made @ Val::Optional(_)) => Ok(made),
        _ => Err(Fail::overload()),
    }
}

/// Index and element of a list, or key and value of a map.
fn pairs<'a>(evaluator: &mut Evaluator<'a, '_>, of: &Val<'a>) -> Result<Vec<(Val<'a>, Val<'a>)>, Fail> {
    match of {
        Val::List(list) => Ok((0..).map(Val::Int).zip(evaluator.items(list)?).collect()),
        Val::Map(table) => evaluator.entries(table),
        _ => Err(Fail::overload()),
    }
}

#[derive(Default)]
struct Gathered<'a> {
    made: Vec<Val<'a>>,
    /// Keys and values of a map, or elements after what they are sorted by.
    pairs: Vec<(Val<'a>, Val<'a>)>,
    trues: usize,
    falses: usize,
    /// The first error, unless an element decides.
    failed: Option<Fail>,
}

impl<'a> Gathered<'a> {
    /// One element; true if the rest does not matter.
    fn step(
        &mut self,
        evaluator: &mut Evaluator<'a, '_>,
        each: &'a Each,
        key: Val<'a>,
        single: Val<'a>,
    ) -> Result<bool, Fail> {
        if let Some(only) = &each.only {
            match evaluator.visit(only)? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(false),
                _ => return Err(Fail::overload()),
            }
        }
        let body = evaluator.visit(&each.body);
        match (each.what, body) {
            (_, Err(Fail::TooCostly)) => Err(Fail::TooCostly),
            (What::Map, body) => {
                self.made.push(body?);
                Ok(false)
            }
            (What::TransformMap, body) => {
                self.pairs.push((key, body?));
                Ok(false)
            }
            (What::SortBy, body) => {
                self.pairs.push((body?, single));
                Ok(false)
            }
            (What::All | What::Exists, Err(fail)) => {
                self.failed.get_or_insert(fail);
                Ok(false)
            }
            (_, Err(fail)) => Err(fail),
            (what, Ok(Val::Bool(flag))) => {
                self.trues += usize::from(flag);
                self.falses += usize::from(!flag);
                if flag && what == What::Filter {
                    self.made.push(single);
                }
                Ok(match what {
                    What::All => !flag,
                    What::Exists => flag,
                    _ => false,
                })
            }
            (_, Ok(_)) => Err(Fail::overload()),
        }
    }

    fn result(self, what: What) -> Result<Val<'a>, Fail> {
        match what {
            What::Map | What::Filter => Ok(Val::list(self.made)),
            What::TransformMap => Ok(Val::Map(Table::Own(self.pairs.into()))),
            What::SortBy | What::OptMap | What::OptFlatMap => Err(Fail::overload()),
            What::ExistsOne => Ok(Val::Bool(self.trues == 1)),
            What::All if self.falses > 0 => Ok(Val::Bool(false)),
            What::Exists if self.trues > 0 => Ok(Val::Bool(true)),
            What::All | What::Exists => self.failed.map_or(Ok(Val::Bool(what == What::All)), Err),
        }
    }
}
