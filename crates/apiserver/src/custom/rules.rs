//! `x-kubernetes-validations`: expressions that values of a node must satisfy.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::cel::{Fail, OBJECT_MAX, Program, Scope, Type, Val, Variables, escape};
use super::correlate::{Correlated, key_of};
use super::field_path;
use super::schema::{Rule, Schema, with_metadata};
use super::validate::FINDINGS_MAX;
use crate::field::{Invalid, Reason};

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// How long a computed message may be.
const MESSAGE_MAX: usize = 5 << 10;

/// One expression, ready to run.
#[derive(Debug)]
pub struct Compiled {
    rule: Rule,
    pub program: Result<Program, String>,
    pub message: Option<Result<Program, String>>,
    /// Below the value, where the error is to be shown.
    path: String,
}

/// The rules of an object.
#[derive(Debug)]
pub struct Rules {
    /// As expressions see it, with metadata.
    schema: Schema,
    top: Below,
}

/// The rules of a node and of what is below it.
#[derive(Debug)]
struct Below {
    here: Vec<Compiled>,
    items: Option<Box<Below>>,
    additional: Option<Box<Below>>,
    properties: BTreeMap<String, Below>,
}

/// Compiles the expressions of one node.
pub struct Compiler<'a> {
    schema: Cow<'a, Schema>,
    this: Option<Type>,
}

impl<'a> Compiler<'a> {
    /// `whole` is the root of an object with metadata.
    pub fn new(schema: &'a Schema, whole: bool) -> Self {
        let schema = with_metadata(schema, whole);
        Self { this: Type::of(&schema), schema }
    }

    pub fn compile(&self, rule: &Rule) -> Compiled {
        compile(&self.schema, self.this.as_ref(), rule)
    }
}

/// Compiles one expression for values of a type, if expressions can look at them.
fn compile(schema: &Schema, this: Option<&Type>, rule: &Rule) -> Compiled {
    let path = match rule.field_path.as_str() {
        "" => String::new(),
        path => field_path::resolve(path, schema, true).map(|found| found.path).unwrap_or_default(),
    };
    let compiled = |program, message| Compiled { rule: rule.clone(), program, message, path: path.clone() };
    let Some(this) = this.cloned() else {
        let why = "failed to convert to declType for CEL validation rules";
        return compiled(Err(why.into()), None);
    };
    let variables = Variables { this, optional_old: rule.optional_old_self == Some(true) };
    let expect = |program: Program, wanted: Type, why: &str| {
        if program.result == wanted { Ok(program) } else { Err(why.to_owned()) }
    };
    let program = Program::compile(&rule.rule, &variables)
        .map_err(|why| format!("compilation failed: {why}"))
        .and_then(|program| expect(program, Type::Bool, "cel expression must evaluate to a bool"));
    let message = match rule.message_expression.trim() {
        "" => None,
        _ if program.is_err() => None,
        _ => Some(
            Program::compile(&rule.message_expression, &variables)
                .map_err(|why| format!("messageExpression compilation failed: {why}"))
                .and_then(|program| {
                    expect(program, Type::Text, "messageExpression must evaluate to a string")
                }),
        ),
    };
    compiled(program, message)
}

impl Rules {
    /// `None` if there are none. `whole` is the root of an object with metadata.
    pub fn of(schema: &Schema, whole: bool) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }
        let schema = with_metadata(schema, whole).into_owned();
        let top = Below::of(&schema)?;
        Some(Self { schema, top })
    }

    /// What a new object breaks, or a change from `old`.
    pub fn check(&self, value: &Value, old: Option<&Value>) -> Vec<Invalid> {
        let mut run = Run { errors: Vec::new(), budget: OBJECT_MAX, ended: false };
        let here = old.map(|old| Replaced::new(Correlated::root(value, old, &self.schema)));
        run.node(&self.top, &self.schema, value, old, "", &Ratchet { here, above: None });
        run.errors
    }
}

impl Below {
    fn of(schema: &Schema) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }
        let below = |schema: &Schema| Self::of(schema).map(Box::new);
        // What expressions cannot look at is not looked into either.
        let properties = schema.properties.iter().filter_map(|(name, property)| {
            escape(name).is_none_or(|_| Type::of(property).is_some()).then_some(())?;
            Some((name.clone(), Self::of(property)?))
        });
        let this = if schema.validations.is_empty() { None } else { Type::of(schema) };
        let compiled = schema.validations.iter().map(|rule| compile(schema, this.as_ref(), rule));
        Some(Self {
            here: compiled.collect(),
            items: schema.items().and_then(below),
            additional: schema.additional().and_then(below),
            properties: properties.collect(),
        })
    }
}

/// A value with the one it replaces. Many parts of it may ask whether it changed.
struct Replaced<'a> {
    value: Correlated<'a>,
    unchanged: OnceCell<bool>,
}

impl<'a> Replaced<'a> {
    fn new(value: Correlated<'a>) -> Rc<Self> {
        Rc::new(Self { value, unchanged: OnceCell::new() })
    }

    fn is_unchanged(&self) -> bool {
        *self.unchanged.get_or_init(|| self.value.is_unchanged())
    }
}

/// Whether a value, or the nearest one above it that can be told apart, is as it was.
#[derive(Clone, Default)]
struct Ratchet<'a> {
    here: Option<Rc<Replaced<'a>>>,
    above: Option<Rc<Replaced<'a>>>,
}

impl Ratchet<'_> {
    fn is_unchanged(&self) -> bool {
        self.here.as_ref().or(self.above.as_ref()).is_some_and(|value| value.is_unchanged())
    }

    fn key(&self, key: &str) -> Self {
        match (&self.here, &self.above) {
            (None, _) => self.clone(),
            (Some(_), None) if matches!(key, "apiVersion" | "kind") => Self::default(),
            (Some(here), _) => {
                Self { here: here.value.key(key).map(Replaced::new), above: Some(here.clone()) }
            }
        }
    }
}

struct Run {
    errors: Vec<Invalid>,
    budget: u64,
    /// Nothing more is evaluated.
    ended: bool,
}

impl Run {
    fn node(
        &mut self,
        rules: &Below,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        ratchet: &Ratchet<'_>,
    ) {
        let old = old.filter(|old| !old.is_null());
        if value.is_null() || self.ended {
            return;
        }
        if !rules.here.is_empty() {
            self.here(rules, schema, value, old, path, ratchet);
        }
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let (named, below) = match (rules.properties.get(key), schema.properties.get(key)) {
                        (Some(rules), Some(below)) => (true, Some((rules, below))),
                        (None, Some(_)) => continue,
                        _ => (false, rules.additional.as_deref().zip(schema.additional())),
                    };
                    let Some((rules, below)) = below else { continue };
                    let at = match (named, path) {
                        (true, "") => key.clone(),
                        (true, path) => format!("{path}.{key}"),
                        (false, path) => format!("{path}[{key}]"),
                    };
                    let old = old.and_then(|old| old.get(key));
                    self.node(rules, below, value, old, &at, &ratchet.key(key));
                }
            }
            Value::Array(items) => {
                let Some((rules, below)) = rules.items.as_deref().zip(schema.items()) else { return };
                self.list(rules, below, schema, items, old, path, ratchet);
            }
            _ => {}
        }
    }

    fn list(
        &mut self,
        rules: &Below,
        below: &Schema,
        schema: &Schema,
        items: &[Value],
        old: Option<&Value>,
        path: &str,
        ratchet: &Ratchet<'_>,
    ) {
        // Only elements with keys can be told apart.
        let keyed = schema.is_list("map");
        let old_items = old.and_then(Value::as_array).into_iter().flatten().filter(|_| keyed);
        let old: BTreeMap<String, &Value> =
            old_items.map(|item| (key_of(item, &schema.list_map_keys), item)).collect();
        let elements = ratchet.here.as_ref().map(|here| here.value.elements());
        for (index, item) in items.iter().enumerate() {
            let before = if keyed { old.get(&key_of(item, &schema.list_map_keys)).copied() } else { None };
            let ratchet = match &elements {
                None => ratchet.clone(),
                Some(elements) => {
                    Ratchet { here: elements.get(index).map(Replaced::new), above: ratchet.here.clone() }
                }
            };
            self.node(rules, below, item, before, &format!("{path}[{index}]"), &ratchet);
        }
    }

    fn here(
        &mut self,
        rules: &Below,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        ratchet: &Ratchet<'_>,
    ) {
        let shown = if path.is_empty() { "<nil>" } else { path };
        let type_ = schema.type_.as_str();
        for compiled in &rules.here {
            // An answer that lists more helps nobody.
            if self.errors.len() >= FINDINGS_MAX {
                self.ended = true;
                return;
            }
            let rule = &compiled.rule;
            let program = match &compiled.program {
                Ok(program) => program,
                Err(why) => {
                    let why = format!("rule compile error: {why}");
                    self.errors.push(Invalid::invalid(shown, type_, why));
                    continue;
                }
            };
            let optional = rule.optional_old_self == Some(true);
            if program.uses_old && old.is_none() && !optional {
                continue;
            }
            if self.budget == 0 {
                self.errors.push(Invalid::invalid(shown, type_, OUT_OF_BUDGET));
                self.ended = true;
                return;
            }
            let outcome = scope(value, old, schema, optional)
                .map_err(Fail::Error)
                .and_then(|scope| program.run(&scope, &mut self.budget));
            match outcome {
                Ok(Val::Bool(true)) => {}
                Ok(_) => {
                    if program.uses_old || !ratchet.is_unchanged() {
                        let error = self.broken(compiled, schema, value, old, path);
                        self.errors.push(error);
                    }
                }
                Err(fail) => {
                    self.ended = fail == Fail::TooCostly;
                    self.errors.push(Invalid::invalid(shown, type_, failure(&fail, rule)));
                    if self.ended {
                        return;
                    }
                }
            }
        }
    }

    /// The error of a rule that is not satisfied.
    fn broken(
        &mut self,
        compiled: &Compiled,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
    ) -> Invalid {
        let rule = &compiled.rule;
        let at = match (path, compiled.path.as_str()) {
            ("", "") => "<nil>".to_owned(),
            ("", below) => below.to_owned(),
            (path, "") => path.to_owned(),
            (path, below) => format!("{path}.{below}"),
        };
        let computed =
            compiled.message.as_ref().and_then(|program| program.as_ref().ok()).and_then(|program| {
                let scope = scope(value, old, schema, rule.optional_old_self == Some(true)).ok()?;
                match program.run(&scope, &mut self.budget) {
                    Ok(Val::Text(text)) => Some(text.trim().to_owned()),
                    _ => None,
                }
            });
        let usable = |text: &String| !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n');
        let detail = computed.filter(usable).unwrap_or_else(|| match rule.message.is_empty() {
            true => format!("failed rule: {}", rule.rule.trim()),
            false => rule.message.trim().to_owned(),
        });
        // Upstream repeats short values only.
        let value = (!matches!(schema.type_.as_str(), "object" | "array")).then(|| value.clone());
        match rule.reason.as_deref() {
            Some("FieldValueForbidden") => Invalid::forbidden(at, detail),
            Some("FieldValueRequired") => Invalid::required(at, detail),
            Some("FieldValueDuplicate") => {
                Invalid { reason: Reason::Duplicate, field: at, value, detail: String::new() }
            }
            _ => Invalid { reason: Reason::Invalid, field: at, value, detail },
        }
    }
}

fn scope<'a>(
    value: &'a Value,
    old: Option<&'a Value>,
    schema: &'a Schema,
    optional: bool,
) -> Result<Scope<'a>, String> {
    let old = old.map(|old| Val::read(old, schema)).transpose()?;
    let old = if optional { Some(Val::Optional(old.map(Into::into))) } else { old };
    Ok(Scope { this: Val::read(value, schema)?, old })
}

fn failure(fail: &Fail, rule: &Rule) -> String {
    let told = if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() };
    match fail {
        Fail::TooCostly => format!(
            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {told}"
        ),
        Fail::Error(why) if why.starts_with("no such overload") => format!(
            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {told}"
        ),
        Fail::Error(why) => format!("{why} evaluating rule: {told}"),
    }
}

#[cfg(test)]
mod tests;
