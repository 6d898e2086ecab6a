//! Evaluation, with a meter running.

use std::collections::HashMap;

use regex::Regex;

use super::ast::{Expr, Node};
use super::signatures::is_prefix;
use super::value::{List, Table, Val};
use super::{Program, functions, macros};
use crate::custom::schema::compile;

/// What it costs to compile a pattern that was not known before, about as much as it takes.
const PATTERN_COST: u64 = 5000;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fail {
    /// In upstream's words, e.g. `no such key: a`.
    Error(String),
    /// Too much to do for one expression.
    TooCostly,
}

impl Fail {
    pub fn new(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub fn overload() -> Self {
        Self::new("no such overload")
    }
}

/// The variables of an evaluation.
pub struct Scope<'a> {
    pub this: Val<'a>,
    pub old: Option<Val<'a>>,
}

pub fn run<'a>(program: &'a Program, scope: &Scope<'a>, budget: &mut u64) -> Result<Val<'a>, Fail> {
    let limit = super::CALL_MAX.min(*budget);
    let (local, computed) = (Vec::new(), HashMap::new());
    let mut evaluator = Evaluator { program, scope, local, computed, spent: 0, limit };
    let result = evaluator.visit(&program.expr);
    let spent = evaluator.spent;
    *budget = budget.saturating_sub(spent);
    if spent > limit { Err(Fail::TooCostly) } else { result }
}

pub struct Evaluator<'a, 's> {
    program: &'a Program,
    scope: &'s Scope<'a>,
    /// Names that macros bind, innermost last.
    pub local: Vec<(&'a str, Val<'a>)>,
    /// Patterns that do not stand in the expression as they are.
    computed: HashMap<String, Regex>,
    pub spent: u64,
    limit: u64,
}

impl<'a> Evaluator<'a, '_> {
    /// Counts; beyond the limit everything fails.
    pub fn spend(&mut self, cost: u64) -> Result<(), Fail> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(Fail::TooCostly) } else { Ok(()) }
    }

    /// Everything in a list. What had to be decoded for that is paid for.
    pub fn items(&mut self, list: &List<'a>) -> Result<Vec<Val<'a>>, Fail> {
        let items = list.all().map_err(Fail::Error)?;
        self.spend(items.iter().map(Val::decoded).fold(0, u64::saturating_add))?;
        Ok(items)
    }

    pub fn entries(&mut self, table: &Table<'a>) -> Result<Vec<(Val<'a>, Val<'a>)>, Fail> {
        let entries = table.entries().map_err(Fail::Error)?;
        self.spend(entries.iter().map(|(_, value)| value.decoded()).fold(0, u64::saturating_add))?;
        Ok(entries)
    }

    /// A pattern is compiled once: for good if it stands in the expression, else for this evaluation.
    pub fn regex(&mut self, pattern: &str) -> Result<Regex, Fail> {
        let known = self.program.patterns.get(pattern).and_then(|known| known.compiled());
        if let Some(regex) = known.or_else(|| self.computed.get(pattern)) {
            return Ok(regex.clone());
        }
        self.spend(PATTERN_COST)?;
        let regex = compile(pattern).map_err(Fail::Error)?;
        self.computed.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }

    pub fn visit(&mut self, expr: &'a Expr) -> Result<Val<'a>, Fail> {
        self.spend(1)?;
        match &expr.node {
            Node::Null => Ok(Val::Null),
            Node::Bool(flag) => Ok(Val::Bool(*flag)),
            Node::Int(n) => Ok(Val::Int(*n)),
            Node::Uint(n) => Ok(Val::Uint(*n)),
            Node::Double(n) => Ok(Val::Double(*n)),
            Node::Text(text) => Ok(Val::Text(super::value::Text::Ref(text))),
            Node::Bytes(bytes) => Ok(Val::Bytes(bytes.as_slice().into())),
            Node::Name(name) => self.name(name),
            Node::List(items) => {
                items.iter().map(|item| self.visit(item)).collect::<Result<_, _>>().map(Val::list)
            }
            Node::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| Ok((self.visit(key)?, self.visit(value)?)));
                let entries: Vec<_> = entries.collect::<Result<_, Fail>>()?;
                Ok(Val::Map(Table::Own(entries.into())))
            }
            Node::Select { of, field, optional } => {
                let of = self.visit(of)?;
                self.member(of, &Val::Text(super::value::Text::Ref(field)), *optional)
            }
            Node::Has { of, field } => {
                let of = self.visit(of)?;
                let found = self.member(of, &Val::Text(super::value::Text::Ref(field)), true)?;
                Ok(Val::Bool(matches!(found, Val::Optional(Some(_)))))
            }
            Node::Index { of, index, optional } => {
                let (of, index) = (self.visit(of)?, self.visit(index)?);
                self.member(of, &index, *optional)
            }
            Node::And(parts) => self.conditions(parts, false),
            Node::Or(parts) => self.conditions(parts, true),
            Node::If { condition, then, other } => match self.visit(condition)? {
                Val::Bool(true) => self.visit(then),
                Val::Bool(false) => self.visit(other),
                _ => Err(Fail::overload()),
            },
            Node::Each(each) => macros::each(self, each),
            Node::Call { name, target, args } => self.call(name, target.as_deref(), args),
        }
    }

    fn name(&mut self, name: &str) -> Result<Val<'a>, Fail> {
        if let Some((_, value)) = self.local.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        match name {
            "self" => Ok(self.scope.this.clone()),
            "oldSelf" => self.scope.old.clone().ok_or_else(|| Fail::new("no such attribute(s): oldSelf")),
            "bool" => Ok(Val::Type("bool")),
            "int" => Ok(Val::Type("int")),
            "uint" => Ok(Val::Type("uint")),
            "double" => Ok(Val::Type("double")),
            "string" => Ok(Val::Type("string")),
            "bytes" => Ok(Val::Type("bytes")),
            "list" => Ok(Val::Type("list")),
            "map" => Ok(Val::Type("map")),
            "null_type" => Ok(Val::Type("null_type")),
            _ => Err(Fail::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// A field, an element or an entry. With `optional` it is no error if there is none.
    fn member(&mut self, of: Val<'a>, key: &Val<'a>, optional: bool) -> Result<Val<'a>, Fail> {
        let (of, optional, lifted) = match of {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(of)) => ((*of).clone(), true, true),
            of => (of, optional, false),
        };
        let found = match (&of, key) {
            (Val::Map(table), key) => {
                let mut spent = 0;
                let found = table.get(key, &mut spent);
                self.spend(spent)?;
                found.ok_or_else(|| Fail::new(format!("no such key: {}", functions::shown(key))))
            }
            (Val::List(list), Val::Int(index)) => self.element(list, *index),
            _ => return Err(Fail::overload()),
        };
        if let Ok(Ok(value)) = &found {
            self.spend(value.decoded())?;
        }
        match (found, optional || lifted) {
            (Ok(value), false) => value.map_err(Fail::Error),
            (Ok(value), true) => value.map(|value| Val::Optional(Some(value.into()))).map_err(Fail::Error),
            (Err(_), true) => Ok(Val::Optional(None)),
            (Err(fail), false) => Err(fail),
        }
    }

    fn element(&mut self, list: &List<'a>, index: i64) -> Result<Result<Val<'a>, String>, Fail> {
        let found = usize::try_from(index).ok().and_then(|index| list.get(index));
        found.ok_or_else(|| Fail::new(format!("index out of bounds: {index}")))
    }

    /// `||` ends at the first true, `&&` at the first false; an error counts only if nothing ends it.
    fn conditions(&mut self, parts: &'a [Expr], ends_at: bool) -> Result<Val<'a>, Fail> {
        let mut failed = None;
        for part in parts {
            match self.visit(part) {
                Ok(Val::Bool(value)) if value == ends_at => return Ok(Val::Bool(ends_at)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(Fail::overload())),
                Err(Fail::TooCostly) => return Err(Fail::TooCostly),
                Err(fail) => failed = failed.or(Some(fail)),
            }
        }
        failed.map_or(Ok(Val::Bool(!ends_at)), Err)
    }

    fn call(&mut self, name: &'a str, target: Option<&'a Expr>, args: &'a [Expr]) -> Result<Val<'a>, Fail> {
        let prefix = target.and_then(|target| match &target.node {
            Node::Name(prefix) if is_prefix(prefix, name) => Some(prefix.as_str()),
            _ => None,
        });
        let target = if prefix.is_some() { None } else { target };
        let values: Vec<Val<'a>> =
            target.into_iter().chain(args).map(|arg| self.visit(arg)).collect::<Result<_, _>>()?;
        let weight: u64 = values.iter().map(Val::weight).fold(0, u64::saturating_add);
        self.spend(weight)?;
        match prefix {
            Some(prefix) => functions::prefixed(self, prefix, name, &values),
            None => functions::call(self, name, &values),
        }
    }
}
