use serde_json::{Value, json};

use super::*;
use crate::custom::schema::Schema;

fn schema() -> Schema {
    let text = json!({"type": "string"});
    Schema::parse(&json!({"type": "object", "properties": {
        "a": {"type": "integer"}, "f": {"type": "number"}, "b": {"type": "boolean"}, "s": text, "namespace": text, "a.b-c/d": text,
        "l": {"type": "array", "items": text}, "n": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "ios": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "raw": {"x-kubernetes-preserve-unknown-fields": true},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "var": text, "spans": {"type": "array", "items": {"type": "string", "format": "duration"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "named": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": text, "v": {"type": "integer"}}},
        },
        "t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"}, "y": {"type": "string", "format": "byte"},
    }}))
    .unwrap()
}

fn compile(source: &str) -> Result<Program, String> {
    let variables = Variables { this: Type::of(&schema()).unwrap(), optional_old: false };
    Program::compile(source, &variables)
}

fn run(source: &str, this: &Value) -> Result<String, String> {
    let program = compile(source).unwrap_or_else(|error| panic!("{source}\n{error}"));
    let schema = schema();
    let scope = Scope { this: Val::read(this, &schema)?, old: None };
    let mut budget = OBJECT_MAX;
    match program.run(&scope, &mut budget) {
        Ok(value) => Ok(functions::shown(&value)),
        Err(Fail::Error(why)) => Err(why),
        Err(Fail::TooCostly) => Err("too costly".into()),
    }
}

fn object() -> Value {
    json!({
        "a": 5, "f": 1.5, "b": true, "s": "héllo", "namespace": "ns", "a.b-c/d": "odd", "l": ["a", "b", "c"], "n": [3, 1, 2],
        "o": {"x": 7}, "ios": "50%", "free": {"u": 1}, "m": {"one": 1, "two": 2}, "t": "2026-01-02T03:04:05Z", "d": "1h30m", "y": "aGk=",
        "var": "v", "spans": [], "set": ["a", "b"], "named": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    })
}

#[test]
fn values() {
    let table = [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("7 / 2", "3"),
        ("-7 % 3", "-1"),
        ("-self.a", "-5"),
        ("1.5 + self.f", "3"),
        ("0x1F", "31"),
        ("3u + 4u", "7"),
        ("self.a > 4 && self.a < 6 ? 'mid' : 'out'", "mid"),
        ("self.a > 4.5 && 1 < 2u", "true"),
        ("'a' + \"b\" + r'\\d'", "ab\\d"),
        ("'\\u00e9\\n'.size()", "2"),
        ("'''a'b'''", "a'b"),
        ("self.s.size()", "5"),
        ("size(self.l) + size(self.m)", "5"),
        ("self.__namespace__", "ns"),
        ("self.namespace", "ns"),
        ("self.a__dot__b__dash__c__slash__d", "odd"),
        ("has(self.o) && has(self.o.x)", "true"),
        ("self.o.x == 7", "true"),
        ("self.l[1]", "b"),
        ("self.m['two']", "2"),
        ("self.m.two", "2"),
        ("'two' in self.m && !('three' in self.m)", "true"),
        ("'b' in self.l", "true"),
        ("self.l == ['a', 'b', 'c']", "true"),
        ("self.l != ['c', 'b', 'a']", "true"),
        ("{'x': 1, 'y': 2}['y']", "2"),
        ("{'x': 1} == {'x': 1}", "true"),
        ("type(self.ios) == string && self.ios.endsWith('%')", "true"),
        ("type(self.a) == int", "true"),
        ("self.l.all(x, x != 'z') && self.l.exists(x, x == 'a')", "true"),
        ("self.l.exists_one(x, x > 'b')", "true"),
        ("self.n.map(x, x * 2).sum()", "12"),
        ("self.n.map(x, x > 1, x * 10).max()", "30"),
        ("self.n.filter(x, x > 1).size()", "2"),
        ("self.m.all(k, self.m[k] > 0)", "true"),
        ("self.l.all(i, x, i >= 0 && x != '')", "true"),
        ("self.m.exists(k, v, k == 'two' && v == 2)", "true"),
        ("self.n.isSorted()", "false"),
        ("self.n.min() + self.n.indexOf(2)", "3"),
        ("[1, 2, 1].lastIndexOf(1)", "2"),
        ("self.n.sort().reverse()[0]", "3"),
        ("[1, 1, 2].distinct().size()", "2"),
        ("self.l.join('-')", "a-b-c"),
        ("self.l.slice(1, 3).join()", "bc"),
        ("self.s.contains('éll') && self.s.startsWith('h') && self.s.endsWith('o')", "true"),
        ("self.s.matches('^h.*o$')", "true"),
        ("matches(self.s, '^x')", "false"),
        ("self.s.substring(1, 3) + self.s.charAt(4)", "élo"),
        ("self.s.indexOf('l') + self.s.lastIndexOf('l')", "5"),
        ("'a,b,c'.split(',', 2)[1]", "b,c"),
        ("'A b '.lowerAscii().trim().replace('b', 'c')", "a c"),
        ("'abc123'.find('[0-9]+')", "123"),
        ("'a1b22'.findAll('[0-9]+').size()", "2"),
        ("int('12') + int(3.9) + int(2u)", "17"),
        ("double('1.5') + double(1)", "2.5"),
        ("string(5) + string(true) + string(1.5)", "5true1.5"),
        ("bool('true')", "true"),
        ("string(bytes('hi')) == string(self.y)", "true"),
        ("self.t < timestamp('2027-01-01T00:00:00Z')", "true"),
        ("self.t.getFullYear() + self.t.getMonth() + self.t.getDate()", "2028"),
        ("self.t.getDayOfWeek()", "5"),
        ("self.d == duration('90m') && self.d.getMinutes() == 90", "true"),
        ("self.t + duration('1h') - self.t", "3600s"),
        ("optional.of(1).orValue(2) + optional.none().orValue(3)", "4"),
        ("self.?o.?x.orValue(0)", "7"),
        ("self.m[?'nope'].hasValue()", "false"),
        ("self.?m.nope.orValue(9)", "9"),
        (
            "sets.contains(self.l, ['a']) && sets.intersects(['a'], self.l) && sets.equivalent([1, 2], [2, 1])",
            "true",
        ),
        ("quantity('1Gi').isGreaterThan(quantity('1G'))", "true"),
        ("quantity('1.5').add(quantity('500m')).asInteger()", "2"),
        ("quantity('50k').compareTo(quantity('50000')) == 0 && isQuantity('x') == false", "true"),
        ("dyn(1) == 1.0", "true"),
        ("[1, 2].exists(x, 1 / (x - 1) == 1)", "true"),
        ("false && 1 / 0 == 1 || true", "true"),
        ("1 / 0 == 1 || true", "true"),
        ("self.b == true // the end", "true"),
        ("null == null", "true"),
        ("self.__var__", "v"),
        ("duration('1m1.5s').getMilliseconds()", "61500"),
        ("self.spans.sum() == duration('0')", "true"),
        ("bool('T') && !bool('F')", "true"),
        ("string(1000000.5) + string(5.0)", "1.0000005e+065"),
        ("'abcabc'.indexOf('c', 3) + 'abc'.indexOf('c', 20)", "4"),
        ("'abc'.indexOf('', 9)", "9"),
        ("'abcabc'.lastIndexOf('b', 3) + 'abc'.lastIndexOf('a', 3)", "0"),
        ("'ééé'.lastIndexOf('é', 1)", "1"),
        ("'a1b22'.findAll('[0-9]+', 1).size()", "1"),
        ("lists.range(3).sum() + lists.range(-1).size()", "3"),
        ("[[1, 2], [3]].flatten().sum()", "6"),
        ("[[[1, 2], [3]]].flatten(2).size()", "3"),
        ("strings.quote('a\"b\\n')", "\"a\\\"b\\n\""),
        ("optional.ofNonZeroValue('').hasValue() || optional.ofNonZeroValue([]).hasValue()", "false"),
        ("optional.ofNonZeroValue(self.spans).hasValue()", "true"),
        ("optional.ofNonZeroValue(self.a).orValue(1)", "5"),
        ("self.l.transformList(i, x, string(i) + x).join()", "0a1b2c"),
        ("self.l.transformList(i, x, i > 0, x).join()", "bc"),
        ("self.m.transformMap(k, v, v * 2)['two']", "4"),
        ("self.m.transformMap(k, v, v > 1, v).size()", "1"),
        ("self.named.sortBy(x, -x.v)[0].k", "b"),
        ("['c', 'a', 'b'].sortBy(x, x).join()", "abc"),
        ("self.?s.optMap(x, x + '!').orValue('')", "héllo!"),
        ("self.?o.optFlatMap(o, o.?x).orValue(0)", "7"),
        ("optional.none().optMap(x, 1).hasValue()", "false"),
        ("self.l.all(lists, lists.size() == 1)", "true"),
        // Sets and lists by key stay what they are, and the left side decides.
        ("self.set == ['b', 'a'] && ['b', 'a'] != self.set", "true"),
        ("self.set + ['b', 'c'] == ['c', 'b', 'a']", "true"),
        ("(self.set + ['b', 'c']).join()", "abc"),
        ("(self.named + [self.named[1], self.named[0]]).size()", "2"),
        ("self.named == [self.named[1], self.named[0]]", "true"),
        ("(self.named + self.named.filter(x, x.k == 'b')) == self.named", "true"),
        ("self.named == [self.named[0]]", "false"),
    ];
    for (source, want) in table {
        let source = source.trim();
        assert_eq!(run(source, &object()), Ok(want.to_owned()), "{source}");
    }
}

#[test]
fn failures() {
    let table = [
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("self.l[3] == ''", "index out of bounds: 3"),
        ("self.m['x'] == 1", "no such key: x"),
        ("self.ios + 1 == 2", "no such overload"),
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("self.l.all(x, x.charAt(5) == '')", "index out of range: 5"),
        ("[].max() == 1", "max called on empty list"),
        ("[1, 2].flatten(-1).size() == 2", "level must be non-negative"),
        ("self.l.indexOf('x') == 'a'.indexOf('x', -1)", "index out of range: -1"),
        ("self.?o.?x.value() == 1 && optional.none().value() == 1", "optional.none() dereference"),
    ];
    for (source, want) in table {
        let got = run(source, &json!({"a": 1, "l": ["a"], "m": {}, "ios": "1", "o": {"x": 1}}));
        assert_eq!(got, Err(want.to_owned()), "{source}");
    }
}

/// Seen on kube-apiserver v1.36.3.
#[test]
fn what_cannot_work_is_refused() {
    let table = [
        ("self.zz > 1", 5, "undefined field 'zz'"),
        ("self.a > 'x'", 8, "found no matching overload for '_>_' applied to '(int, string)'"),
        (
            "self.a >",
            9,
            "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        ("self.a > 1 )", 12, "Syntax error: extraneous input ')' expecting <EOF>"),
        ("foo > 1", 1, "undeclared reference to 'foo' (in container '')"),
        ("self.a.foo()", 11, "undeclared reference to 'foo' (in container '')"),
        ("foo(self.a)", 4, "undeclared reference to 'foo' (in container '')"),
        ("has(self.zz)", 4, "undefined field 'zz'"),
        ("has(self)", 5, "invalid argument to has() macro"),
        ("self.free.x == 1", 10, "undefined field 'x'"),
        ("self.raw == 1", 5, "undefined field 'raw'"),
        ("self.l.all(x, x == 1)", 17, "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.m['a'] == 'x'", 13, "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.l[0] == 1", 11, "found no matching overload for '_==_' applied to '(string, int)'"),
        (
            "self.a > 1 ? 'x' : true",
            12,
            "found no matching overload for '_?_:_' applied to '(bool, string, bool)'",
        ),
        ("self.s.matches('[')", 16, "invalid matches argument"),
        ("self.a.size() > 1", 12, "found no matching overload for 'size' applied to 'int.()'"),
        ("!self.a", 1, "found no matching overload for '!_' applied to '(int)'"),
        ("1 in self.l", 3, "found no matching overload for '@in' applied to '(int, list(string))'"),
        ("self.a == null", 8, "found no matching overload for '_==_' applied to '(int, null)'"),
        ("self.o.x.y == 1", 9, "type 'int' does not support field selection"),
        ("self.a + 's' == 's'", 8, "found no matching overload for '_+_' applied to '(int, string)'"),
        ("self.l.exists(x, y)", 18, "undeclared reference to 'y' (in container '')"),
    ];
    for (source, column, text) in table {
        let dots = ".".repeat(column - 1);
        let want = format!("ERROR: <input>:1:{column}: {text}\n | {source}\n | {dots}^");
        assert_eq!(compile(source).unwrap_err(), want, "{source}");
    }
    let both = compile("self.a == 's' || self.zz").unwrap_err();
    assert_eq!(both.matches("ERROR").count(), 2, "{both}");
    // Each issue repeats the whole line, and there may be as many as there are names.
    let many = compile(&format!("[{}zz] == 1", "zz,".repeat(199))).unwrap_err();
    assert_eq!(many.matches("ERROR").count(), 100);
    assert!(many.ends_with("\n101 more errors were truncated"), "{many}");
    let long = compile(&format!("[{}zz] == 1", "zz,".repeat(20_000))).unwrap_err();
    assert!(long.len() < 1 << 20, "{}", long.len());
    let wide = compile("self.s == 'é' && self.zz == 1").unwrap_err();
    assert!(wide.ends_with(" | ...........．.........^"), "{wide}");
    for bad in [
        "'",
        "1 +* 2",
        "a.",
        "[1, 'x']",
        "x{",
        "for",
        "'\\q'",
        "99999999999999999999",
        "self.l.map(1, 2)",
        "#",
    ] {
        assert!(compile(bad).is_err(), "{bad}");
    }
}

#[test]
fn deep_and_long_expressions_are_refused() {
    let deep = [
        format!("{}1{}", "(".repeat(5000), ")".repeat(5000)),
        format!("{}true", "!".repeat(5000)),
        format!("self{}", ".o".repeat(5000)),
        format!("1{}", " + 1".repeat(5000)),
        format!("{}1{}", "[".repeat(5000), "]".repeat(5000)),
        format!("self{}", "[self.a".repeat(40).to_string() + &"]".repeat(40) + &".x".repeat(90)),
        "x".repeat(100_000),
        format!("true{}", " ? true : true".repeat(3000)),
    ];
    for source in deep {
        let shown: String = source.chars().take(20).collect();
        assert!(compile(&source).is_err(), "{shown}");
    }
    assert!(compile(&format!("true{}", " && true".repeat(90))).is_ok());
}

/// What a step looks at is what it costs, and what it costs is what it takes: each of these would take minutes or be
/// cheap if it were not so.
#[test]
fn work_is_paid_for() {
    let zeros = vec![0; 300_000];
    let long = json!({"n": zeros, "free": {"x": zeros}, "y": "aGlo".repeat(1 << 18), "l": vec!["a"; 10_000]});
    let table = [
        ("sets.contains(self.n, self.n)", Ok("true")),
        ("self.l.all(x, x.matches('^a$') && x.matches('^' + x))", Ok("true")),
        ("self.n.slice(0, 1000).all(i, x, 'a'.matches('a|' + string(i)))", Err("too costly")),
        ("self.l.all(x, has(self.y))", Err("too costly")),
        ("self.l.all(x, self.free == self.free)", Err("too costly")),
        ("lists.range(1000000000).size() == 0", Err("too costly")),
    ];
    for (source, want) in table {
        assert_eq!(run(source, &long), want.map(str::to_owned).map_err(str::to_owned), "{source}");
    }
}
