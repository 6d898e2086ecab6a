//! `${token}` in the names of secrets, expanded as a shell would.

/// Replaces every token; unknown ones are an error that names all of them.
pub fn expand(text: &str, value_of: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut expanded, mut unknown) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (token, length) = token(rest);
        rest = &rest[length..];
        match token {
            None if length == 0 => expanded.push('$'),
            // Braces without a name: dropped, as a shell does.
            None => {}
            Some(token) => match value_of(token) {
                Some(value) => expanded.push_str(&value),
                None => unknown.push(token.to_owned()),
            },
        }
    }
    expanded.push_str(rest);
    if unknown.is_empty() { Ok(expanded) } else { Err(format!("invalid tokens: {unknown:?}")) }
}

/// The token after a dollar sign, and how much text it takes.
fn token(text: &str) -> (Option<&str>, usize) {
    if let Some(braced) = text.strip_prefix('{') {
        return match braced.find('}') {
            Some(0) => (None, 2),
            Some(end) => (Some(&braced[..end]), end + 2),
            None => (None, 1),
        };
    }
    match text.chars().next() {
        // Single-character names of a shell; none of them means anything here.
        Some(c) if "*#$@!?-0123456789".contains(c) => (Some(&text[..1]), 1),
        Some(_) => {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
            ((end > 0).then(|| &text[..end]), end)
        }
        None => (None, 0),
    }
}
