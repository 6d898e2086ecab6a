//! The Common Expression Language, as far as the rules of custom resources use it.
//!
//! An expression is parsed, checked against the types of its schema, and evaluated on JSON as it is. Evaluation counts
//! its cost and gives up at a limit, so that no rule and no object can keep the server busy.
//!
//! Written here because the crates there are bring a parser generator along and bound nothing. Missing: protobuf
//! messages, time zones other than UTC, `format()`, `transformMapEntry()`, optional elements of literals (`[?x]`,
//! `{?k: v}`), `has()` of a path with `.?` in it, and upstream's libraries for formats, URLs, IP addresses, semantic
//! versions and authorisation; a rule that uses what is missing is refused together with its definition.

mod ast;
mod check;
mod escape;
mod eval;
mod functions;
mod lexer;
mod lists;
mod macros;
mod members;
mod numbers;
mod parser;
mod report;
mod signatures;
#[cfg(test)]
mod tests;
mod text;
mod times;
mod types;
mod value;

use std::collections::HashMap;

use ast::Expr;
use report::Issue;

use super::schema::Pattern;

pub use escape::escape;
pub use eval::{Fail, Scope};
pub use numbers::duration;
pub use types::Type;
pub use value::Val;

/// What one evaluation may cost.
pub const CALL_MAX: u64 = 1_000_000;
/// What all evaluations for one object may cost.
pub const OBJECT_MAX: u64 = 10_000_000;

/// The variables that rules see.
#[derive(Debug, Clone)]
pub struct Variables {
    pub this: Type,
    /// `oldSelf` may have no value.
    pub optional_old: bool,
}

/// A checked expression.
#[derive(Debug)]
pub struct Program {
    expr: Expr,
    /// Regular expressions that stand in it.
    patterns: HashMap<String, Pattern>,
    pub uses_old: bool,
    pub result: Type,
}

impl Program {
    /// The error is the text that follows `compilation failed: `.
    pub fn compile(source: &str, variables: &Variables) -> Result<Self, String> {
        let told = |issues: Vec<Issue>| report::report(source, &issues);
        let expr = parser::parse(source).map_err(|issue| told(vec![issue]))?;
        let checked = check::check(&expr, variables).map_err(told)?;
        Ok(Self { expr, patterns: checked.patterns, uses_old: checked.uses_old, result: checked.result })
    }

    /// Evaluates; what it cost comes off the budget either way.
    pub fn run<'a>(&'a self, scope: &Scope<'a>, budget: &mut u64) -> Result<Val<'a>, Fail> {
        eval::run(self, scope, budget)
    }
}
