//! Which functions there are, and for which types.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;

/// One way to call a function. Of a method the first parameter is what it is called on.
#[derive(Debug)]
pub struct Signature {
    pub method: bool,
    pub parameters: Vec<Type>,
    pub result: Type,
}

/// `name(parameters): result` or `type.name(parameters): result`. Capitals stand for any type.
const ALL: &[&str] = &[
    // Operators.
    "_==_(A, A): bool",
    "_!=_(A, A): bool",
    "!_(bool): bool",
    "-_(int): int",
    "-_(double): double",
    "-_(duration): duration",
    "@in(A, list(A)): bool",
    "@in(A, map(A, B)): bool",
    "_+_(int, int): int",
    "_+_(uint, uint): uint",
    "_+_(double, double): double",
    "_+_(string, string): string",
    "_+_(bytes, bytes): bytes",
    "_+_(list(A), list(A)): list(A)",
    "_+_(timestamp, duration): timestamp",
    "_+_(duration, timestamp): timestamp",
    "_+_(duration, duration): duration",
    "_-_(int, int): int",
    "_-_(uint, uint): uint",
    "_-_(double, double): double",
    "_-_(timestamp, timestamp): duration",
    "_-_(timestamp, duration): timestamp",
    "_-_(duration, duration): duration",
    "_*_(int, int): int",
    "_*_(uint, uint): uint",
    "_*_(double, double): double",
    "_/_(int, int): int",
    "_/_(uint, uint): uint",
    "_/_(double, double): double",
    "_%_(int, int): int",
    "_%_(uint, uint): uint",
    // Conversions.
    "int(int): int",
    "int(uint): int",
    "int(double): int",
    "int(string): int",
    "int(timestamp): int",
    "uint(uint): uint",
    "uint(int): uint",
    "uint(double): uint",
    "uint(string): uint",
    "double(double): double",
    "double(int): double",
    "double(uint): double",
    "double(string): double",
    "string(string): string",
    "string(bool): string",
    "string(int): string",
    "string(uint): string",
    "string(double): string",
    "string(bytes): string",
    "string(timestamp): string",
    "string(duration): string",
    "bytes(bytes): bytes",
    "bytes(string): bytes",
    "bool(bool): bool",
    "bool(string): bool",
    "timestamp(timestamp): timestamp",
    "timestamp(string): timestamp",
    "timestamp(int): timestamp",
    "duration(duration): duration",
    "duration(string): duration",
    "dyn(A): dyn",
    "type(A): type(A)",
    // Sizes.
    "size(string): int",
    "size(bytes): int",
    "size(list(A)): int",
    "size(map(A, B)): int",
    "string.size(): int",
    "bytes.size(): int",
    "list(A).size(): int",
    "map(A, B).size(): int",
    // Text.
    "string.contains(string): bool",
    "string.startsWith(string): bool",
    "string.endsWith(string): bool",
    "string.matches(string): bool",
    "matches(string, string): bool",
    "string.charAt(int): string",
    "string.indexOf(string): int",
    "string.indexOf(string, int): int",
    "string.lastIndexOf(string): int",
    "string.lastIndexOf(string, int): int",
    "string.lowerAscii(): string",
    "string.upperAscii(): string",
    "string.replace(string, string): string",
    "string.replace(string, string, int): string",
    "string.split(string): list(string)",
    "string.split(string, int): list(string)",
    "string.substring(int): string",
    "string.substring(int, int): string",
    "string.trim(): string",
    "strings.quote(string): string",
    "list(string).join(): string",
    "list(string).join(string): string",
    "string.find(string): string",
    "string.findAll(string): list(string)",
    "string.findAll(string, int): list(string)",
    // Lists.
    "list(A).isSorted(): bool",
    "list(A).min(): A",
    "list(A).max(): A",
    "list(A).sum(): A",
    "list(A).indexOf(A): int",
    "list(A).lastIndexOf(A): int",
    "list(A).distinct(): list(A)",
    "list(A).reverse(): list(A)",
    "list(A).sort(): list(A)",
    "list(A).slice(int, int): list(A)",
    "list(list(A)).flatten(): list(A)",
    "list(dyn).flatten(int): list(dyn)",
    "lists.range(int): list(int)",
    "sets.contains(list(A), list(A)): bool",
    "sets.intersects(list(A), list(A)): bool",
    "sets.equivalent(list(A), list(A)): bool",
    // Times.
    "timestamp.getFullYear(): int",
    "timestamp.getMonth(): int",
    "timestamp.getDate(): int",
    "timestamp.getDayOfMonth(): int",
    "timestamp.getDayOfWeek(): int",
    "timestamp.getDayOfYear(): int",
    "timestamp.getHours(): int",
    "timestamp.getMinutes(): int",
    "timestamp.getSeconds(): int",
    "timestamp.getMilliseconds(): int",
    "duration.getHours(): int",
    "duration.getMinutes(): int",
    "duration.getSeconds(): int",
    "duration.getMilliseconds(): int",
    // Optional values.
    "optional.of(A): optional(A)",
    "optional.none(): optional(dyn)",
    "optional.ofNonZeroValue(A): optional(A)",
    "optional(A).hasValue(): bool",
    "optional(A).value(): A",
    "optional(A).orValue(A): A",
    "optional(A).or(optional(A)): optional(A)",
    // Quantities.
    "quantity(string): quantity",
    "isQuantity(string): bool",
    "quantity.sign(): int",
    "quantity.isInteger(): bool",
    "quantity.asInteger(): int",
    "quantity.asApproximateFloat(): double",
    "quantity.isGreaterThan(quantity): bool",
    "quantity.isLessThan(quantity): bool",
    "quantity.compareTo(quantity): int",
    "quantity.add(quantity): quantity",
    "quantity.add(int): quantity",
    "quantity.sub(quantity): quantity",
    "quantity.sub(int): quantity",
];

/// Functions whose first word is no type but part of their name.
const PREFIXED: [&str; 4] = ["sets", "optional", "lists", "strings"];

/// What can be ordered. Numbers are compared with one another, whatever their types.
const ORDERED: [&str; 7] = ["bool", "string", "bytes", "timestamp", "duration", "int", "double"];
const NUMBERS: [&str; 3] = ["int", "uint", "double"];

pub static SIGNATURES: LazyLock<HashMap<String, Vec<Signature>>> = LazyLock::new(|| {
    let mut all: HashMap<String, Vec<Signature>> = HashMap::new();
    let mut add = |text: &str| {
        if let Some((name, signature)) = parse(text) {
            all.entry(name).or_default().push(signature);
        }
    };
    ALL.iter().for_each(|text| add(text));
    for operator in ["_<_", "_<=_", "_>_", "_>=_"] {
        ORDERED.iter().for_each(|of| add(&format!("{operator}({of}, {of}): bool")));
        for one in NUMBERS {
            let others = NUMBERS.iter().filter(|other| **other != one || one == "uint");
            others.for_each(|other| add(&format!("{operator}({one}, {other}): bool")));
        }
    }
    all
});

/// Whether a name followed by a dot is part of the name of a function, and not something that has a method.
pub fn is_prefix(prefix: &str, name: &str) -> bool {
    PREFIXED.contains(&prefix) && SIGNATURES.contains_key(&format!("{prefix}.{name}"))
}

fn parse(text: &str) -> Option<(String, Signature)> {
    let (head, result) = text.rsplit_once("): ")?;
    let mut rest = head;
    let mut parameters = Vec::new();
    let mut method = false;
    let prefixed =
        PREFIXED.iter().any(|prefix| rest.strip_prefix(prefix).is_some_and(|r| r.starts_with('.')));
    if !prefixed
        && let Some((target, after)) = read_type(rest)
        && let Some(after) = after.strip_prefix('.')
    {
        parameters.push(target);
        method = true;
        rest = after;
    }
    let (name, mut rest) = rest.split_once('(')?;
    while !rest.is_empty() {
        let (parameter, after) = read_type(rest)?;
        parameters.push(parameter);
        rest = after.trim_start_matches(", ");
    }
    Some((name.to_owned(), Signature { method, parameters, result: read_type(result)?.0 }))
}

/// A type at the start of a text, and what follows it.
fn read_type(text: &str) -> Option<(Type, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let inner = |rest| -> Option<(Type, &str)> {
        let (of, rest) = read_type(str::strip_prefix(rest, "(")?)?;
        Some((of, rest.strip_prefix(')')?))
    };
    Some(match word {
        "list" => inner(rest).map(|(of, rest)| (Type::List(Box::new(of)), rest))?,
        "optional" => inner(rest).map(|(of, rest)| (Type::Optional(Box::new(of)), rest))?,
        "type" => inner(rest).map(|(of, rest)| (Type::Type(Box::new(of)), rest))?,
        "map" => {
            let (key, rest) = read_type(rest.strip_prefix('(')?)?;
            let (value, rest) = read_type(rest.strip_prefix(", ")?)?;
            (Type::Map(Box::new(key), Box::new(value)), rest.strip_prefix(')')?)
        }
        word => (named(word)?, rest),
    })
}

/// A type by its name alone; capitals are parameters.
pub fn named(word: &str) -> Option<Type> {
    Some(match word {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Time,
        "duration" => Type::Span,
        "quantity" => Type::Quantity,
        "dyn" => Type::Dyn,
        word => match word.as_bytes() {
            [letter] if letter.is_ascii_uppercase() => Type::Param(char::from(*letter)),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_readable() {
        for text in ALL {
            assert!(parse(text).is_some(), "{text}");
        }
        let contains = &SIGNATURES["contains"][0];
        assert_eq!((contains.method, contains.parameters.len()), (true, 2));
        assert!(!SIGNATURES["sets.contains"][0].method);
        assert!(SIGNATURES["_<_"].len() > 10);
    }
}
