//! Names of fields as names of the language: what it does not allow in a name is spelled out.

/// Words that are no names.
pub const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];
/// Words that mean something.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

fn is_word(field: &str) -> bool {
    WORDS.contains(&field) || RESERVED.contains(&field)
}

/// `None` if the field cannot be named at all.
pub fn escape(field: &str) -> Option<String> {
    if field.is_empty() || field.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_word(field) {
        return Some(format!("__{field}__"));
    }
    if !field.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c)) {
        return None;
    }
    let spelled = field.replace("__", "__underscores__");
    Some(spelled.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}

/// The field that a name stands for.
pub fn unescape(name: &str) -> Option<String> {
    if !name.contains("__") {
        return Some(name.to_owned());
    }
    let word = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = word.filter(|word| is_word(word)) {
        return Some(word.to_owned());
    }
    let mut out = String::new();
    let mut rest = name;
    while let Some(start) = rest.find("__") {
        out.push_str(&rest[..start]);
        rest = &rest[start + 2..];
        let end = rest.find("__")?;
        out.push_str(match &rest[..end] {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            _ => return None,
        });
        rest = &rest[end + 2..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let table = [
            ("a", "a"),
            ("a_b", "a_b"),
            ("namespace", "__namespace__"),
            ("in", "__in__"),
            ("var", "__var__"),
            ("void", "__void__"),
            ("while", "__while__"),
            ("a.b", "a__dot__b"),
            ("a-b/c", "a__dash__b__slash__c"),
            ("a__b", "a__underscores__b"),
        ];
        for (field, name) in table {
            assert_eq!(escape(field).as_deref(), Some(name));
            assert_eq!(unescape(name).as_deref(), Some(field));
        }
        assert_eq!((escape("é"), escape("1a"), escape("")), (None, None, None));
        assert_eq!(unescape("a__nope__b"), None);
    }
}
