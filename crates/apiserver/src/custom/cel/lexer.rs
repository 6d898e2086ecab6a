//! From text to tokens.

use super::ast::At;
use super::report::Issue;

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Name(String),
    /// Operators and brackets.
    Sign(&'static str),
    End,
}

/// Longest first, so that `<=` is not `<`.
const SIGNS: [&str; 28] = [
    "&&", "||", "==", "!=", "<=", ">=", ".?", "[?", "(", ")", "[", "]", "{", "}", ".", ",", ":", "?", "+",
    "-", "*", "/", "%", "!", "<", ">", "=", "`",
];

pub fn tokens(source: &str) -> Result<Vec<(At, Token)>, Issue> {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0 };
    let mut out = Vec::new();
    loop {
        lexer.skip_space();
        let at = lexer.at;
        let token = lexer.next()?;
        let end = token == Token::End;
        out.push((at, token));
        if end {
            return Ok(out);
        }
    }
}

struct Lexer {
    chars: Vec<char>,
    at: At,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn skip_space(&mut self) {
        while self.at < self.chars.len() {
            if self.peek(0).is_whitespace() {
                self.at += 1;
            } else if self.peek(0) == '/' && self.peek(1) == '/' {
                while self.at < self.chars.len() && self.peek(0) != '\n' {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<Token, Issue> {
        if self.at >= self.chars.len() {
            return Ok(Token::End);
        }
        let c = self.peek(0);
        if let Some(prefix) = self.literal_prefix() {
            return self.text(prefix);
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_ascii_digit()) {
            return self.number();
        }
        if c.is_ascii_alphabetic() || c == '_' {
            return Ok(Token::Name(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')));
        }
        let sign = SIGNS.into_iter().find(|sign| sign.chars().enumerate().all(|(i, s)| self.peek(i) == s));
        match sign.filter(|sign| !matches!(*sign, "=" | "`")) {
            Some(sign) => {
                self.at += sign.chars().count();
                Ok(Token::Sign(sign))
            }
            None => Err(Issue::new(self.at, format!("Syntax error: token recognition error at: '{c}'"))),
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.at < self.chars.len() && wanted(self.peek(0)) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    fn number(&mut self) -> Result<Token, Issue> {
        let start = self.at;
        let invalid = |kind: &str| Issue::new(start, format!("invalid {kind} literal"));
        if self.peek(0) == '0' && matches!(self.peek(1), 'x' | 'X') {
            self.at += 2;
            let digits = self.take_while(|c| c.is_ascii_hexdigit());
            if matches!(self.peek(0), 'u' | 'U') {
                self.at += 1;
                return u64::from_str_radix(&digits, 16).map(Token::Uint).map_err(|_| invalid("uint"));
            }
            return i64::from_str_radix(&digits, 16).map(Token::Int).map_err(|_| invalid("int"));
        }
        let mut text = self.take_while(|c| c.is_ascii_digit());
        let mut float = false;
        if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
            self.at += 1;
            float = true;
            text = format!("{text}.{}", self.take_while(|c| c.is_ascii_digit()));
        }
        let signed = matches!(self.peek(1), '+' | '-') && self.peek(2).is_ascii_digit();
        if matches!(self.peek(0), 'e' | 'E') && (self.peek(1).is_ascii_digit() || signed) {
            text.push('e');
            text.push(self.peek(1));
            self.at += 2;
            float = true;
            text.push_str(&self.take_while(|c| c.is_ascii_digit()));
        }
        if float {
            return text.parse().map(Token::Double).map_err(|_| invalid("double"));
        }
        if matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            return text.parse().map(Token::Uint).map_err(|_| invalid("uint"));
        }
        // The smallest integer has no positive counterpart; its minus stands in front of it.
        if text == "9223372036854775808" && start > 0 && self.chars[start - 1] == '-' {
            return Ok(Token::Int(i64::MIN));
        }
        text.parse().map(Token::Int).map_err(|_| invalid("int"))
    }

    /// How a quote starts here, if one does: its prefix of `r` and `b`.
    fn literal_prefix(&self) -> Option<usize> {
        let prefix = (0..3).take_while(|i| matches!(self.peek(*i), 'r' | 'R' | 'b' | 'B')).count();
        matches!(self.peek(prefix), '"' | '\'').then_some(prefix).filter(|prefix| *prefix <= 2)
    }

    fn text(&mut self, prefix: usize) -> Result<Token, Issue> {
        let start = self.at;
        let has =
            |letter: char| self.chars[start..start + prefix].iter().any(|c| c.eq_ignore_ascii_case(&letter));
        let (raw, bytes) = (has('r'), has('b'));
        self.at += prefix;
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        let width = if triple { 3 } else { 1 };
        self.at += width;
        let mut out = Content::default();
        loop {
            let closed = (0..width).all(|i| self.peek(i) == quote);
            if self.at >= self.chars.len() || (!triple && self.peek(0) == '\n') {
                let text: String = self.chars[start..self.at].iter().collect();
                return Err(Issue::new(start, format!("Syntax error: token recognition error at: '{text}'")));
            }
            if closed {
                self.at += width;
                break;
            }
            match self.peek(0) {
                '\\' if !raw => {
                    self.at += 1;
                    self.escape(&mut out, bytes)?;
                }
                c => {
                    out.push(c);
                    self.at += 1;
                }
            }
        }
        Ok(if bytes {
            Token::Bytes(out.bytes)
        } else {
            Token::Text(String::from_utf8_lossy(&out.bytes).into_owned())
        })
    }

    /// What follows a backslash.
    fn escape(&mut self, out: &mut Content, bytes: bool) -> Result<(), Issue> {
        let start = self.at;
        let invalid = || Issue::new(start, "Syntax error: invalid escape sequence");
        let c = self.peek(0);
        self.at += 1;
        let simple = match c {
            'a' => Some('\x07'),
            'b' => Some('\x08'),
            'f' => Some('\x0c'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0b'),
            '\\' | '\'' | '"' | '`' | '?' => Some(c),
            _ => None,
        };
        if let Some(c) = simple {
            out.push(c);
            return Ok(());
        }
        let (digits, radix) = match c {
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='3' => {
                self.at -= 1;
                (3, 8)
            }
            _ => return Err(invalid()),
        };
        let text: String = (0..digits).map(|i| self.peek(i)).collect();
        let code = u32::from_str_radix(&text, radix).map_err(|_| invalid())?;
        self.at += digits;
        match (bytes && digits < 4, u8::try_from(code)) {
            (true, Ok(byte)) => out.bytes.push(byte),
            _ => out.push(char::from_u32(code).ok_or_else(invalid)?),
        }
        Ok(())
    }
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
}

impl Content {
    fn push(&mut self, c: char) {
        self.bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}
