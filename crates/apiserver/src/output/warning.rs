//! `Warning` headers.

use http::HeaderValue;

use crate::status::each_once;

/// Beyond this many letters in all, each warning is cut, and the rest are dropped. Upstream's figures.
const TOTAL_MAX: usize = 4096;
const CUT: usize = 256;

/// Each text once, in order, as UTF-8, which is what clients read.
pub fn headers(warnings: &[String]) -> Vec<HeaderValue> {
    let texts = each_once(warnings);
    let total: usize = texts.iter().map(|text| text.chars().count()).sum();
    let (cut, most) = if total > TOTAL_MAX { (CUT, TOTAL_MAX / CUT) } else { (usize::MAX, usize::MAX) };
    texts.into_iter().take(most).filter_map(|text| header(text, cut)).collect()
}

fn header(text: &str, cut: usize) -> Option<HeaderValue> {
    let mut quoted = String::from("299 - \"");
    for letter in text.chars().take(cut) {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // A line must not end inside a header.
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    HeaderValue::from_bytes(quoted.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(warnings: &[&str]) -> Vec<String> {
        let warnings: Vec<String> = warnings.iter().map(|text| text.to_string()).collect();
        headers(&warnings).iter().map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
    }

    #[test]
    fn quoted_once_and_in_any_alphabet() {
        let seen = texts(&["unknown field \"ünï\"", "a\\b", "two\nlines", "a\\b"]);
        assert_eq!(seen, ["299 - \"unknown field \\\"ünï\\\"\"", "299 - \"a\\\\b\"", "299 - \"two lines\""]);
    }

    #[test]
    fn many_long_ones_are_cut() {
        let long: Vec<String> = (0..40).map(|number| format!("{number:02}{}", "x".repeat(300))).collect();
        let seen = headers(&long);
        assert_eq!((seen.len(), seen[0].len()), (16, 256 + "299 - \"\"".len()));
        assert_eq!(headers(&long[..10])[0].len(), 302 + "299 - \"\"".len());
    }
}
