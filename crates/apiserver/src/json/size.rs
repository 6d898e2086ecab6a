//! How many bytes a value takes as JSON, without writing it down.

use std::io::{self, Write};

use serde_json::Value;

/// The size of a value, or `None` if it is more than `max`. No longer looks at a value than `max` takes.
pub fn size_within(value: &Value, max: usize) -> Option<usize> {
    let mut left = Left(max);
    serde_json::to_writer(&mut left, value).ok()?;
    Some(max - left.0)
}

/// A bound of the size of a value: it may be smaller, and is not larger. Looking is quicker than writing.
pub fn size_at_most(value: &Value) -> usize {
    /// A character that JSON cannot show as it is: `\u0000`.
    const CHARACTER: usize = 6;
    /// The longest number, or a word.
    const SCALAR: usize = 32;
    let text = |text: &str| text.len() * CHARACTER + 2;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR,
        Value::String(content) => text(content),
        Value::Array(items) => 2 + items.iter().map(|item| size_at_most(item) + 1).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(name, value)| text(name) + size_at_most(value) + 2).sum::<usize>()
        }
    }
}

/// Takes this many bytes and then no more.
struct Left(usize);

impl Write for Left {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_size_is_that_of_the_text() {
        for value in [
            json!(null),
            json!("a\n\u{1}ö"),
            json!({"a": [1, 2.5, {}], "b": false}),
            json!([]),
            json!({"\u{1}": [[], f64::MIN]}),
        ] {
            let length = value.to_string().len();
            assert_eq!(size_within(&value, 1000), Some(length), "{value}");
            assert_eq!(size_within(&value, length), Some(length), "{value}");
            assert_eq!(size_within(&value, length - 1), None, "{value}");
            assert!(size_at_most(&value) >= length, "{value}");
        }
    }
}
