use super::*;

/// Seen with Go's regexp package.
#[test]
fn matches_as_go_does() {
    let table = [
        ("^[a-z]+$", "abc", true),
        ("^[a-z]+$", "abC", false),
        ("b", "abc", true),
        (r"^\d+$", "12", true),
        (r"^\d+$", "١٢", false),
        (r"^\w+$", "é", false),
        (r"^[\w-]+$", "a-b_9", true),
        (r"^[\W]+$", "é!", true),
        (r"^\S+$", "a b", false),
        (r"^[[a]+$", "[a", true),
        (r"^[]a]+$", "]a", true),
        (r"^[^]a]+$", "]", false),
        (r"^[a&&b]+$", "&", true),
        (r"^[a~~b]+$", "~", true),
        (r"^[--a]+$", "-", true),
        (r"^[a-c-e]+$", "-be", true),
        (r"^[a-]+$", "a-", true),
        (r"^[\x41-\x{5A}]+$", "AMZ", true),
        (r"^[[:alpha:]]+$", "aZ", true),
        (r"^[[:^alpha:]]+$", "1", true),
        (r"^x[[:alpha]$", "x:", true),
        (r"^a{2,3}$", "aaa", true),
        (r"^a{2,3}$", "aaaa", false),
        (r"^a{,3}$", "a{,3}", true),
        (r"^a{01}$", "a{01}", true),
        (r"^a{2$", "a{2", true),
        (r"^a{2,$", "a{2,", true),
        (r"^a{2}}$", "aa}", true),
        (r"^\\{2}$", r"\\", true),
        (r"^\{2}$", "{2}", true),
        (r"^{x}$", "{x}", true),
        (r"^\Qa.b\E$", "a.b", true),
        (r"^\Qa.b\E$", "axb", false),
        (r"^\Qab\E{2}$", "abb", true),
        (r"(?i)^ABC$", "abc", true),
        (r"(?)^(?P<n>a)(?<m>b)(?P<n>c)$", "abc", true),
        (r"^\p{L}+$", "é", true),
        (r"^\pL\d$", "é1", true),
        (r"^\p{^L}$", "1", true),
        (r"^\P{^L}$", "1", false),
        (r"^\x{e9}$", "é", true),
        (r"^\101\0$", "A\0", true),
        (r"^.$", "é", true),
        (r"\bfoo\b", "a foo b", true),
        (r"\b{start}", "{start}", false),
        (r"\Boo", "foo", true),
        (r"^\<a>$", "<a>", true),
        (r"^*a$*", "a", true),
        ("^a b#c$", "a b#c", true),
        ("^a$", "a\n", false),
    ];
    for (pattern, text, want) in table {
        let compiled = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        assert_eq!(compiled.is_match(text), want, "{pattern} on {text}");
    }
}

/// Seen with Go's regexp package.
#[test]
fn refuses_as_go_does() {
    let table = [
        ("[", "missing closing ]: `[`"),
        ("xx[a", "missing closing ]: `[a`"),
        ("(", "missing closing ): `(`"),
        ("a)b", "unexpected ): `a)b`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("{2}", "missing argument to repetition operator: `{2}`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}?{3}", "invalid nested repetition operator: `{2}?{3}`"),
        ("x*+", "invalid nested repetition operator: `*+`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{99999999999}", "invalid repeat count: `{99999999999}`"),
        ("((a{10}){10}){11}", "invalid repeat count: `{11}`"),
        ("(?<x", "invalid named capture: `(?<x`"),
        ("(?P<a-b>a)", "invalid named capture: `(?P<a-b>`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?x)a b", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?-)a", "invalid or unsupported Perl syntax: `(?-)`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[a--b]", "invalid character class range: `a--`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{L", r"invalid character class range: `\p{L`"),
        (r"\pX", r"invalid character class range: `\pX`"),
        (r"\q", r"invalid escape sequence: `\q`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\u0041", r"invalid escape sequence: `\u`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        (r"[\b]", r"invalid escape sequence: `\b`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
    ];
    for (pattern, want) in table {
        let found = compile(pattern).map(|_| ());
        assert_eq!(found, Err(format!("error parsing regexp: {want}")), "{pattern}");
    }
    assert!(compile("(\\pL{100}){10}").unwrap_err().contains("expression too large"));
}

/// What reads on to the end must not do so again and again.
#[test]
fn long_expressions_are_read_in_one_pass() {
    for part in ["{", "{1", "}", "\\Qa\\E", "[[:a]"] {
        assert!(translate::translate(&part.repeat(300_000)).is_ok(), "{part}");
    }
}
