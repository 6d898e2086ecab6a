//! The JSONPath of printer columns: `.spec.list[?(@.type=="Ready")].status` and simpler.

use serde_json::Value;

/// So deep may filters stand in filters: parsing and following one goes into itself for each.
const FILTERS_MAX: u8 = 4;

#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// From the end if negative.
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    Every,
    /// Here and everywhere below; once in a path, because each multiplies the ways through an object.
    Descend(String),
    Filter {
        path: Vec<Step>,
        test: Option<(Test, Value)>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// `None` for what is not understood.
    pub fn parse(text: &str) -> Option<Self> {
        steps(text.trim().strip_prefix('$').unwrap_or(text.trim()), FILTERS_MAX).map(Self)
    }

    /// The first value that a path leads to.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        first(&self.0, object)
    }
}

/// `filters` may stand in each other from here on.
fn steps(text: &str, filters: u8) -> Option<Vec<Step>> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (step, after) = if let Some(after) = rest.strip_prefix("..") {
            let (name, after) = name(after)?;
            if all.iter().any(|step| matches!(step, Step::Descend(_))) {
                return None;
            }
            (Step::Descend(name), after)
        } else if let Some(after) = rest.strip_prefix('.') {
            match after {
                // A lone dot is the object itself; a bracket may follow it.
                "" => return Some(all),
                _ if after.starts_with('[') => {
                    rest = after;
                    continue;
                }
                _ if after.starts_with('*') => (Step::Every, &after[1..]),
                _ => {
                    let (name, after) = name(after)?;
                    (Step::Field(name), after)
                }
            }
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            (bracket(after[..end].trim(), filters)?, &after[end + 1..])
        } else {
            return None;
        };
        all.push(step);
        rest = after;
    }
    Some(all)
}

/// A name up to the next dot or bracket; a backslash takes the next sign along.
fn name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return (!name.is_empty()).then_some((name, &text[at..])),
            '\\' => name.push(chars.next()?.1),
            c => name.push(c),
        }
    }
    (!name.is_empty()).then_some((name, ""))
}

/// Where the bracket closes, quotes and brackets inside of it aside.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inside: &str, filters: u8) -> Option<Step> {
    if inside == "*" {
        return Some(Step::Every);
    }
    if let Some(text) = unquoted(inside) {
        return Some(Step::Field(text.to_owned()));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        return condition(filter.trim(), filters.checked_sub(1)?);
    }
    if let Some((from, to)) = inside.split_once(':') {
        let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        return Some(Step::Slice(bound(from)?, bound(to)?));
    }
    inside.parse().ok().map(Step::Index)
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

fn condition(text: &str, filters: u8) -> Option<Step> {
    const TESTS: [(&str, Test); 6] = [
        ("==", Test::Equal),
        ("!=", Test::NotEqual),
        ("<=", Test::LessOrEqual),
        (">=", Test::GreaterOrEqual),
        ("<", Test::Less),
        (">", Test::Greater),
    ];
    let found =
        TESTS.iter().filter_map(|(sign, test)| Some((text.find(sign)?, *sign, *test))).min_by_key(|f| f.0);
    let (left, test) = match found {
        None => (text, None),
        Some((at, sign, test)) => {
            let right = text[at + sign.len()..].trim();
            let value = match unquoted(right) {
                Some(text) => Value::from(text),
                None => serde_json::from_str(right).ok()?,
            };
            (text[..at].trim(), Some((test, value)))
        }
    };
    Some(Step::Filter { path: steps(left.strip_prefix('@')?, filters)?, test })
}

/// One way at a time, so that nothing is gathered that nobody looks at. Every step goes deeper into the value, so
/// this goes into itself no deeper than the value does.
fn first<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    let on = |below: &'a Value| first(rest, below);
    let items = || value.as_array().map_or(&[][..], Vec::as_slice);
    match step {
        Step::Field(name) => value.get(name).and_then(on),
        Step::Every => elements(value).find_map(on),
        Step::Descend(name) => {
            value.get(name).and_then(on).or_else(|| elements(value).find_map(|below| first(steps, below)))
        }
        Step::Index(index) => position(*index, items().len()).and_then(|at| items().get(at)).and_then(on),
        Step::Slice(from, to) => slice(items(), *from, *to).iter().find_map(on),
        Step::Filter { path, test } => {
            items().iter().filter(|item| fits(item, path, test.as_ref())).find_map(on)
        }
    }
}

fn elements<'a>(value: &'a Value) -> Box<dyn Iterator<Item = &'a Value> + 'a> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn slice(items: &[Value], from: Option<i64>, to: Option<i64>) -> &[Value] {
    let start = position(from.unwrap_or(0), items.len()).unwrap_or(0);
    let end = to.map_or(Some(items.len()), |to| position(to, items.len())).unwrap_or(0).min(items.len());
    items.get(start..end).unwrap_or_default()
}

fn fits(item: &Value, path: &[Step], test: Option<&(Test, Value)>) -> bool {
    match (first(path, item), test) {
        (Some(_), None) => true,
        (Some(found), Some((test, wanted))) => passes(*test, found, wanted),
        (None, _) => false,
    }
}

fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

fn passes(test: Test, found: &Value, wanted: &Value) -> bool {
    let order = match (found, wanted) {
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Number(one), Value::Number(other)) => one.as_f64().partial_cmp(&other.as_f64()),
        _ => None,
    };
    match test {
        Test::Equal => found == wanted || order.is_some_and(|order| order.is_eq()),
        Test::NotEqual => found != wanted,
        Test::Less => order.is_some_and(|order| order.is_lt()),
        Test::LessOrEqual => order.is_some_and(|order| order.is_le()),
        Test::Greater => order.is_some_and(|order| order.is_gt()),
        Test::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn table() {
        let object = json!({
            "spec": {"a": 1, "b.c": "dotted", "list": ["x", "y", "z"], "deep": {"a": {"a": 2}}},
            "status": {"conditions": [{"type": "Ready", "status": "False", "n": 1}, {"type": "Done", "status": "True", "n": 5}]},
        });
        let cases = [
            (".spec.a", json!(1)),
            (".spec.b\\.c", json!("dotted")),
            (".spec['b.c']", json!("dotted")),
            (".spec.list[0]", json!("x")),
            (".spec.list[-1]", json!("z")),
            (".spec.list[1:]", json!("y")),
            (".spec.list[*]", json!("x")),
            (".spec.list", json!(["x", "y", "z"])),
            (".status.conditions[?(@.type==\"Done\")].status", json!("True")),
            (".status.conditions[?(@.type=='Ready')].status", json!("False")),
            (".status.conditions[?(@.n>2)].type", json!("Done")),
            (".status.conditions[?(@.n)].type", json!("Ready")),
            (".spec.deep..a", json!({"a": 2})),
            ("$.spec.a", json!(1)),
            (".spec.none", Value::Null),
            (".spec.list[9]", Value::Null),
        ];
        for (path, want) in cases {
            let found = JsonPath::parse(path).unwrap().first(&object).cloned().unwrap_or_default();
            assert_eq!(found, want, "{path}");
        }
        for bad in ["spec", ".spec[", ".spec[x]", ".a[?(b)]", "..", ".a[?(@.b==)]"] {
            assert_eq!(JsonPath::parse(bad), None, "{bad}");
        }
    }
    /// Of a definition that somebody stored to end every server that starts.
    #[test]
    fn filters_in_filters_have_an_end() {
        let nested = |depth: usize| format!(".a{}{}", "[?(@".repeat(depth), ")]".repeat(depth));
        assert!(JsonPath::parse(&nested(4)).is_some());
        for depth in [5, 100_000] {
            assert_eq!(JsonPath::parse(&nested(depth)), None, "{depth}");
        }
    }

    /// Of each way through a deep object there may be very many.
    #[test]
    fn descents_do_not_multiply() {
        assert_eq!(JsonPath::parse(".spec..a..a"), None);
        let object = (0..60).fold(json!({}), |below, _| json!({"a": below}));
        let filter = JsonPath::parse("..a[?(@..a)].b").unwrap();
        assert_eq!(filter.first(&object), None);
        let every = JsonPath::parse(&format!("..a{}", ".a".repeat(59))).unwrap();
        assert_eq!(every.first(&object), Some(&json!({})));
    }
}
