//! What follows a backslash.

use std::fmt::Write;

use super::translate::{Fault, Translator};

const FAULT: &str = "invalid escape sequence";

/// Classes by letter, which are ASCII in Go: what is in them, or in what they leave out.
fn letters(c: char) -> Option<(bool, &'static str)> {
    let inside = match c.to_ascii_lowercase() {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\f\\r ",
        _ => return None,
    };
    Some((c.is_ascii_uppercase(), inside))
}

impl Translator<'_> {
    /// Outside of a class. `start` is where the backslash stands.
    pub fn escape(&mut self, start: usize) -> Result<(), Fault> {
        match self.peek() {
            Some(c @ ('A' | 'z')) => _ = write!(self.out, "\\{c}"),
            Some(c @ ('b' | 'B')) => _ = write!(self.out, "(?-u:\\{c})"),
            Some('Q') => {
                self.quoted();
                return Ok(());
            }
            _ if self.set(start)? => {
                self.written(1);
                return Ok(());
            }
            _ => {
                let c = self.escaped(start)?;
                self.literal(c);
                self.written(1);
                return Ok(());
            }
        }
        self.take();
        self.written(1);
        Ok(())
    }

    /// Everything up to `\E` as it is.
    fn quoted(&mut self) {
        self.take();
        let rest = self.rest();
        let (literal, end) = rest.split_once("\\E").map_or((rest, 0), |(literal, _)| (literal, 2));
        for c in literal.chars() {
            self.literal(c);
            self.written(1);
        }
        self.next += literal.len() + end;
    }

    /// A class by letter, script or category; false if it is none. It fits inside of another class, too.
    pub fn set(&mut self, start: usize) -> Result<bool, Fault> {
        let Some(c) = self.peek() else { return Ok(false) };
        if let Some((negated, inside)) = letters(c) {
            self.take();
            _ = write!(self.out, "[{}{inside}]", if negated { "^" } else { "" });
            return Ok(true);
        }
        if !matches!(c, 'p' | 'P') {
            return Ok(false);
        }
        self.take();
        self.unicode(start, c == 'P')?;
        Ok(true)
    }

    /// `\pL` or `\p{Greek}`, from the name on.
    fn unicode(&mut self, start: usize, negated: bool) -> Result<(), Fault> {
        const FAULT: &str = "invalid character class range";
        let first = self.next;
        let name = match self.take() {
            Some('{') => match self.rest().split_once('}') {
                Some((name, _)) => {
                    self.next += name.len() + 1;
                    name
                }
                None => return Err(self.fault_to_the_end(FAULT, start)),
            },
            _ => &self.whole[first..self.next],
        };
        let (flipped, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphabetic() || c == '_') {
            return Err(self.fault(FAULT, start));
        }
        _ = write!(self.out, "\\{}{{{name}}}", if negated == flipped { 'p' } else { 'P' });
        Ok(())
    }

    /// The one character that an escape stands for.
    pub fn escaped(&mut self, start: usize) -> Result<char, Fault> {
        let Some(c) = self.take() else {
            let end = self.next;
            return Err(self.fault("trailing backslash at end of expression", end));
        };
        let found = match c {
            '0' => self.octal(0),
            // A single digit would be a reference to a group.
            '1'..='7' if self.peek().is_some_and(|next| next.is_digit(8)) => {
                self.octal(c.to_digit(8).unwrap_or(0))
            }
            'x' => self.hex(),
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        found.ok_or_else(|| self.fault(FAULT, start))
    }

    /// Up to two more digits.
    fn octal(&mut self, mut value: u32) -> Option<char> {
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
            self.take();
            value = value * 8 + digit;
        }
        char::from_u32(value)
    }

    /// Two digits, or any number of them in braces.
    fn hex(&mut self) -> Option<char> {
        if !self.accept('{') {
            let high = self.take()?.to_digit(16);
            let low = self.take()?.to_digit(16)?;
            return char::from_u32(high? * 16 + low);
        }
        let mut value: Option<u32> = None;
        loop {
            match self.take()? {
                '}' => return char::from_u32(value?),
                digit => {
                    let larger = value.unwrap_or(0).checked_mul(16)?.checked_add(digit.to_digit(16)?)?;
                    value = Some(larger).filter(|value| *value <= u32::from(char::MAX));
                    value?;
                }
            }
        }
    }
}
