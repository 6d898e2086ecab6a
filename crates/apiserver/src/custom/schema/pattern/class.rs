//! Classes of characters in brackets.

use std::fmt::Write;

use super::translate::{Fault, Translator};

const RANGE_FAULT: &str = "invalid character class range";
const NAMES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

impl Translator<'_> {
    /// From after the opening bracket, which stands at `start`, to the closing one.
    pub fn class(&mut self, start: usize) -> Result<(), Fault> {
        self.out.push('[');
        if self.accept('^') {
            self.out.push('^');
        }
        let mut first = true;
        while first || !self.accept(']') {
            first = false;
            let at = self.next;
            let is_set = self.named()? || (self.accept('\\') && self.set(at)?);
            if !is_set {
                self.next = at;
                self.range(start)?;
            }
        }
        self.out.push(']');
        self.written(1);
        Ok(())
    }

    /// `[:alpha:]`, or `[:^alpha:]` for the others.
    fn named(&mut self) -> Result<bool, Fault> {
        let Some(inside) = self.rest().strip_prefix("[:") else { return Ok(false) };
        // Without an end it is a bracket and a colon.
        if self.last_name.is_none_or(|last| last < self.next + 2) {
            return Ok(false);
        }
        let start = self.next;
        let Some((name, _)) = inside.split_once(":]") else { return Ok(false) };
        self.next += name.len() + 4;
        if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(self.fault(RANGE_FAULT, start));
        }
        _ = write!(self.out, "[:{name}:]");
        Ok(true)
    }

    /// One character, or two with a dash between them.
    fn range(&mut self, class: usize) -> Result<(), Fault> {
        let start = self.next;
        let low = self.member(class)?;
        self.literal(low);
        let rest = self.rest();
        // A dash in front of the closing bracket means itself.
        if rest.len() < 2 || !rest.starts_with('-') || rest.starts_with("-]") {
            return Ok(());
        }
        self.take();
        let high = self.member(class)?;
        if high < low {
            return Err(self.fault(RANGE_FAULT, start));
        }
        self.out.push('-');
        self.literal(high);
        Ok(())
    }

    fn member(&mut self, class: usize) -> Result<char, Fault> {
        let start = self.next;
        match self.take() {
            None => Err(self.fault("missing closing ]", class)),
            Some('\\') => self.escaped(start),
            Some(c) => Ok(c),
        }
    }
}
