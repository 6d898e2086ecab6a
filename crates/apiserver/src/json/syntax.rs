//! What is wrong with a text that is no JSON, in the words of Go's scanner. Only texts that were refused get here.

/// Upstream's limit of nesting.
const DEPTH_MAX: usize = 10_000;
/// For what is within upstream's limit and beyond ours.
pub const TOO_DEEP: &str = "exceeded max depth";

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    /// After `[`: a value or the end.
    ValueOrEnd,
    Key,
    /// After `{`: a key or the end.
    KeyOrEnd,
    AfterKey,
    AfterValue,
}

/// The first thing wrong with a text; `None` if it is JSON.
pub fn fault(text: &[u8]) -> Option<String> {
    let mut scan = Scan { text, at: 0, open: Vec::new() };
    scan.run().err()
}

struct Scan<'t> {
    text: &'t [u8],
    at: usize,
    /// `{` and `[` that are not closed yet.
    open: Vec<u8>,
}

fn ended() -> String {
    "unexpected end of JSON input".to_owned()
}

/// Go shows bytes as Latin-1.
fn invalid(byte: u8, context: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        other => crate::golang::quoted(&char::from(other).to_string()).trim_matches('"').to_owned(),
    };
    format!("invalid character '{shown}' {context}")
}

impl Scan<'_> {
    fn next(&mut self) -> Result<u8, String> {
        let byte = *self.text.get(self.at).ok_or_else(ended)?;
        self.at += 1;
        Ok(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn run(&mut self) -> Result<(), String> {
        let mut state = State::Value;
        loop {
            while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
                self.at += 1;
            }
            if state == State::AfterValue && self.open.is_empty() {
                return self.peek().map_or(Ok(()), |byte| Err(invalid(byte, "after top-level value")));
            }
            let byte = self.next()?;
            state = self.step(state, byte)?;
        }
    }

    fn step(&mut self, state: State, byte: u8) -> Result<State, String> {
        match (state, byte) {
            (State::ValueOrEnd, b']') | (State::KeyOrEnd, b'}') => self.close(),
            (State::Value | State::ValueOrEnd, byte) => self.value(byte),
            (State::Key | State::KeyOrEnd, b'"') => self.string().map(|()| State::AfterKey),
            (State::Key | State::KeyOrEnd, byte) => {
                Err(invalid(byte, "looking for beginning of object key string"))
            }
            (State::AfterKey, b':') => Ok(State::Value),
            (State::AfterKey, byte) => Err(invalid(byte, "after object key")),
            (State::AfterValue, byte) => match (self.open.last(), byte) {
                (Some(b'{'), b',') => Ok(State::Key),
                (Some(b'['), b',') => Ok(State::Value),
                (Some(b'{'), b'}') | (Some(b'['), b']') => self.close(),
                (Some(b'{'), byte) => Err(invalid(byte, "after object key:value pair")),
                (_, byte) => Err(invalid(byte, "after array element")),
            },
        }
    }

    fn close(&mut self) -> Result<State, String> {
        self.open.pop();
        Ok(State::AfterValue)
    }

    fn value(&mut self, byte: u8) -> Result<State, String> {
        match byte {
            b'{' | b'[' => {
                self.open.push(byte);
                if self.open.len() > DEPTH_MAX {
                    return Err(invalid(byte, TOO_DEEP));
                }
                return Ok(if byte == b'{' { State::KeyOrEnd } else { State::ValueOrEnd });
            }
            b'"' => self.string()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            b'-' | b'0'..=b'9' => self.number(byte)?,
            other => return Err(invalid(other, "looking for beginning of value")),
        }
        Ok(State::AfterValue)
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(invalid(byte, &context));
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                control @ 0..0x20 => return Err(invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.next()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => (0..4).try_for_each(|_| match self.next()? {
                byte if byte.is_ascii_hexdigit() => Ok(()),
                byte => Err(invalid(byte, "in \\u hexadecimal character escape")),
            }),
            byte => Err(invalid(byte, "in string escape code")),
        }
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// At least one digit.
    fn some_digits(&mut self, context: &str) -> Result<(), String> {
        match self.next()? {
            byte if byte.is_ascii_digit() => {
                self.digits();
                Ok(())
            }
            byte => Err(invalid(byte, context)),
        }
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let leading = match first {
            b'-' => self.next()?,
            digit => digit,
        };
        match leading {
            // Nothing follows a zero but a fraction.
            b'0' => {}
            digit if digit.is_ascii_digit() => self.digits(),
            other => return Err(invalid(other, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }
}
