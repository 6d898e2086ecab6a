//! Types of expressions: what cannot work is refused before it is stored.

use std::collections::HashMap;

use super::Variables;
use super::ast::{At, Each, Expr, Node, What};
use super::report::Issue;
use super::signatures::{SIGNATURES, Signature, is_prefix, named};
use super::types::Type;
use crate::custom::schema::{Pattern, compile};

/// Types by name, for rules that ask for the type of a value.
const TYPE_NAMES: [&str; 6] = ["bool", "int", "uint", "double", "string", "bytes"];

pub struct Checked {
    pub result: Type,
    pub uses_old: bool,
    pub patterns: HashMap<String, Pattern>,
}

pub fn check(expr: &Expr, variables: &Variables) -> Result<Checked, Vec<Issue>> {
    let (local, issues, patterns) = (Vec::new(), Vec::new(), HashMap::new());
    let mut checker = Checker { variables, local, issues, uses_old: false, patterns };
    let result = checker.visit(expr);
    if checker.issues.is_empty() {
        return Ok(Checked { result, uses_old: checker.uses_old, patterns: checker.patterns });
    }
    Err(checker.issues)
}

struct Checker<'a> {
    variables: &'a Variables,
    /// Names that macros bind, innermost last.
    local: Vec<(String, Type)>,
    issues: Vec<Issue>,
    uses_old: bool,
    patterns: HashMap<String, Pattern>,
}

impl Checker<'_> {
    fn wrong(&mut self, at: At, text: impl Into<String>) -> Type {
        self.issues.push(Issue::new(at, text));
        Type::Wrong
    }

    fn visit(&mut self, expr: &Expr) -> Type {
        match &expr.node {
            Node::Null => Type::Null,
            Node::Bool(_) => Type::Bool,
            Node::Int(_) => Type::Int,
            Node::Uint(_) => Type::Uint,
            Node::Double(_) => Type::Double,
            Node::Text(_) => Type::Text,
            Node::Bytes(_) => Type::Bytes,
            Node::Name(name) => self.name(expr.at, name),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Select { of, field, optional } => self.select(expr.at, of, field, *optional),
            Node::Has { of, field } => {
                let of = self.visit(of);
                self.field(expr.at, &of, field);
                Type::Bool
            }
            Node::Index { of, index, optional } => self.index(expr.at, of, index, *optional),
            Node::And(parts) => self.conditions(parts, "_&&_"),
            Node::Or(parts) => self.conditions(parts, "_||_"),
            Node::If { condition, then, other } => self.choice(expr.at, condition, then, other),
            Node::Each(each) => self.each(expr.at, each),
            Node::Call { name, target, args } => self.call(expr.at, name, target.as_deref(), args),
        }
    }

    fn name(&mut self, at: At, name: &str) -> Type {
        if let Some((_, type_)) = self.local.iter().rev().find(|(known, _)| known == name) {
            return type_.clone();
        }
        let this = || self.variables.this.clone();
        match name {
            "self" => this(),
            "oldSelf" => {
                self.uses_old = true;
                if self.variables.optional_old {
                    Type::Optional(Box::new(self.variables.this.clone()))
                } else {
                    this()
                }
            }
            "list" => Type::Type(Box::new(Type::list(Type::Dyn))),
            "map" => Type::Type(Box::new(Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn)))),
            "null_type" => Type::Type(Box::new(Type::Null)),
            word if TYPE_NAMES.contains(&word) => Type::Type(Box::new(named(word).unwrap_or(Type::Dyn))),
            _ => self.wrong(at, format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn list(&mut self, items: &[Expr]) -> Type {
        let mut of = Type::Dyn;
        for item in items {
            let type_ = self.visit(item);
            if !of.agrees(&type_) {
                self.wrong(item.at, format!("expected type '{of}' but found '{type_}'"));
            }
            of = of.joined(type_);
        }
        Type::list(of)
    }

    fn map(&mut self, entries: &[(Expr, Expr)]) -> Type {
        let (mut keys, mut values) = (Type::Dyn, Type::Dyn);
        for (key, value) in entries {
            let (key_type, value_type) = (self.visit(key), self.visit(value));
            if !keys.agrees(&key_type) {
                self.wrong(key.at, format!("expected type '{keys}' but found '{key_type}'"));
            }
            if !values.agrees(&value_type) {
                self.wrong(value.at, format!("expected type '{values}' but found '{value_type}'"));
            }
            (keys, values) = (keys.joined(key_type), values.joined(value_type));
        }
        Type::Map(Box::new(keys), Box::new(values))
    }

    fn select(&mut self, at: At, of: &Expr, field: &str, optional: bool) -> Type {
        let of = self.visit(of);
        let (inner, lifted) = match of {
            Type::Optional(inner) => (*inner, true),
            other => (other, false),
        };
        let found = self.field(at, &inner, field);
        if optional || lifted { Type::Optional(Box::new(found)) } else { found }
    }

    fn field(&mut self, at: At, of: &Type, field: &str) -> Type {
        match of {
            Type::Object(fields) => match fields.get(field) {
                Some(type_) => type_.clone(),
                // Words of the language are accepted as they are, too.
                None => match fields.get(&format!("__{field}__")) {
                    Some(type_) => type_.clone(),
                    None => self.wrong(at, format!("undefined field '{field}'")),
                },
            },
            Type::Map(_, value) => (**value).clone(),
            Type::Dyn => Type::Dyn,
            Type::Wrong => Type::Wrong,
            other => self.wrong(at, format!("type '{other}' does not support field selection")),
        }
    }

    fn index(&mut self, at: At, of: &Expr, index: &Expr, optional: bool) -> Type {
        let (of, index) = (self.visit(of), self.visit(index));
        let (inner, lifted) = match of {
            Type::Optional(inner) => (*inner, true),
            other => (other, false),
        };
        let found = match &inner {
            Type::List(of) if index.agrees(&Type::Int) => (**of).clone(),
            Type::Map(key, value) if key.agrees(&index) => (**value).clone(),
            loose if loose.is_loose() => loose.clone(),
            other => {
                let text = format!("found no matching overload for '_[_]' applied to '({other}, {index})'");
                self.wrong(at, text)
            }
        };
        if optional || lifted { Type::Optional(Box::new(found)) } else { found }
    }

    fn conditions(&mut self, parts: &[Expr], operator: &str) -> Type {
        let types: Vec<Type> = parts.iter().map(|part| self.visit(part)).collect();
        for (part, type_) in parts.iter().zip(&types) {
            if !type_.agrees(&Type::Bool) {
                let shown: Vec<String> = types.iter().map(ToString::to_string).collect();
                let all = shown.join(", ");
                self.wrong(
                    part.at,
                    format!("found no matching overload for '{operator}' applied to '({all})'"),
                );
            }
        }
        Type::Bool
    }

    fn choice(&mut self, at: At, condition: &Expr, then: &Expr, other: &Expr) -> Type {
        let types = [self.visit(condition), self.visit(then), self.visit(other)];
        if !types[0].agrees(&Type::Bool) || !types[1].agrees(&types[2]) {
            let [condition, then, other] = &types;
            let text =
                format!("found no matching overload for '_?_:_' applied to '({condition}, {then}, {other})'");
            return self.wrong(at, text);
        }
        let [_, then, other] = types;
        then.joined(other)
    }

    fn each(&mut self, at: At, each: &Each) -> Type {
        let of = self.visit(&each.of);
        let in_optional = matches!(each.what, What::OptMap | What::OptFlatMap);
        let (first, second) = match &of {
            Type::Optional(inner) if in_optional => (Type::Wrong, (**inner).clone()),
            other if in_optional && !other.is_loose() => {
                let text = format!("found no matching overload for 'hasValue' applied to '{other}.()'");
                return self.wrong(at, text);
            }
            Type::List(element) => (Type::Int, (**element).clone()),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            loose if loose.is_loose() => (Type::Dyn, Type::Dyn),
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.wrong(each.of.at, text);
                (Type::Wrong, Type::Wrong)
            }
        };
        let key = first.clone();
        let single = if matches!(of, Type::Map(..)) { first.clone() } else { second.clone() };
        let bound = match &each.names[..] {
            [one] => vec![(one.clone(), single.clone())],
            [one, two] => vec![(one.clone(), first), (two.clone(), second)],
            _ => return self.wrong(at, "a macro takes one or two names"),
        };
        let depth = self.local.len();
        self.local.extend(bound);
        for condition in each.only.iter() {
            self.expect_bool(condition);
        }
        let result = match each.what {
            What::Map => Type::list(self.visit(&each.body)),
            What::TransformMap => {
                let key = if matches!(of, Type::List(_)) { Type::Int } else { key };
                Type::Map(Box::new(key), Box::new(self.visit(&each.body)))
            }
            What::SortBy => {
                self.visit(&each.body);
                Type::list(single)
            }
            What::OptMap => Type::Optional(Box::new(self.visit(&each.body))),
            What::OptFlatMap => self.optional(&each.body),
            What::Filter => {
                self.expect_bool(&each.body);
                Type::list(single)
            }
            What::All | What::Exists | What::ExistsOne => {
                self.expect_bool(&each.body);
                Type::Bool
            }
        };
        self.local.truncate(depth);
        result
    }

    fn optional(&mut self, expr: &Expr) -> Type {
        match self.visit(expr) {
            type_ @ (Type::Optional(_) | Type::Dyn | Type::Wrong) => type_,
            other => self.wrong(expr.at, format!("expected type 'optional_type' but found '{other}'")),
        }
    }

    fn expect_bool(&mut self, expr: &Expr) {
        let type_ = self.visit(expr);
        if !type_.agrees(&Type::Bool) {
            self.wrong(expr.at, format!("expected type 'bool' but found '{type_}'"));
        }
    }

    fn call(&mut self, at: At, name: &str, target: Option<&Expr>, args: &[Expr]) -> Type {
        // `sets.contains(a, b)` reads like a method of something called `sets`.
        let prefix = target.and_then(|target| match &target.node {
            Node::Name(prefix) if is_prefix(prefix, name) => Some(prefix),
            _ => None,
        });
        let (name, target) = match prefix {
            Some(prefix) => (format!("{prefix}.{name}"), None),
            None => (name.to_owned(), target),
        };
        let target = target.map(|target| self.visit(target));
        let args_types: Vec<Type> = args.iter().map(|arg| self.visit(arg)).collect();
        let Some(known) = SIGNATURES.get(&name) else {
            return self.wrong(at, format!("undeclared reference to '{name}' (in container '')"));
        };
        let is_method = target.is_some();
        let all: Vec<Type> = target.iter().chain(&args_types).cloned().collect();
        let fitting: Vec<Type> =
            known.iter().filter(|s| s.method == is_method).filter_map(|s| result(s, &all)).collect();
        self.literals(&name, args);
        match &fitting[..] {
            [] if all.contains(&Type::Wrong) => Type::Wrong,
            [] => {
                let shown: Vec<String> = args_types.iter().map(ToString::to_string).collect();
                let target = target.map(|target| format!("{target}.")).unwrap_or_default();
                let text = format!(
                    "found no matching overload for '{name}' applied to '{target}({})'",
                    shown.join(", ")
                );
                self.wrong(at, text)
            }
            [only] => only.clone(),
            // Loose arguments leave several ways open; if they agree the result is known all the same.
            [first, rest @ ..] if rest.iter().all(|other| other == first) => first.clone(),
            _ => Type::Dyn,
        }
    }

    /// Texts that a function will read, checked now rather than each time.
    fn literals(&mut self, name: &str, args: &[Expr]) {
        let read = if name == "findAll" { args.first() } else { args.last() };
        let Some(Expr { at, node: Node::Text(text) }) = read else { return };
        let bad = match name {
            "matches" | "find" | "findAll" => {
                let known = self.patterns.entry(text.clone()).or_insert_with(|| text.clone().into());
                // Compiled anew when it is first used: most definitions see few of their rules at work.
                compile(&known.text).is_err()
            }
            "timestamp" => super::numbers::timestamp(text).is_err(),
            "duration" => super::numbers::duration(text).is_err(),
            _ => false,
        };
        if bad {
            self.wrong(*at, format!("invalid {name} argument"));
        }
    }
}

/// What a call gives, if the arguments fit.
fn result(signature: &Signature, args: &[Type]) -> Option<Type> {
    if signature.parameters.len() != args.len() {
        return None;
    }
    let mut bound = HashMap::new();
    let fits = signature.parameters.iter().zip(args).all(|(parameter, arg)| fits(parameter, arg, &mut bound));
    fits.then(|| filled(&signature.result, &bound))
}

fn fits(parameter: &Type, arg: &Type, bound: &mut HashMap<char, Type>) -> bool {
    match (parameter, arg) {
        (Type::Param(name), arg) => match bound.get(name) {
            None => {
                bound.insert(*name, arg.clone());
                true
            }
            Some(known) => {
                let agrees = known.agrees(arg);
                if agrees && known.is_loose() {
                    bound.insert(*name, arg.clone());
                }
                agrees
            }
        },
        (_, arg) if arg.is_loose() => true,
        (Type::Dyn, _) => true,
        (Type::List(of), Type::List(arg)) | (Type::Optional(of), Type::Optional(arg)) => fits(of, arg, bound),
        (Type::Map(key, value), Type::Map(arg_key, arg_value)) => {
            fits(key, arg_key, bound) && fits(value, arg_value, bound)
        }
        (Type::Type(of), Type::Type(arg)) => fits(of, arg, bound),
        (parameter, arg) => parameter == arg,
    }
}

fn filled(type_: &Type, bound: &HashMap<char, Type>) -> Type {
    match type_ {
        Type::Param(name) => bound.get(name).cloned().unwrap_or(Type::Dyn),
        Type::List(of) => Type::list(filled(of, bound)),
        Type::Optional(of) => Type::Optional(Box::new(filled(of, bound))),
        Type::Type(of) => Type::Type(Box::new(filled(of, bound))),
        Type::Map(key, value) => Type::Map(Box::new(filled(key, bound)), Box::new(filled(value, bound))),
        other => other.clone(),
    }
}
