//! The words of a label selector.

/// A word or a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    End,
    Word,
    In,
    NotIn,
    Open,
    Close,
    Comma,
    Not,
    Equal,
    DoubleEqual,
    NotEqual,
    Greater,
    Less,
}

const SIGNS: [(&str, Token); 9] = [
    // Longer ones first: `==` is not two `=`.
    ("==", Token::DoubleEqual),
    ("!=", Token::NotEqual),
    ("(", Token::Open),
    (")", Token::Close),
    (",", Token::Comma),
    ("!", Token::Not),
    ("=", Token::Equal),
    (">", Token::Greater),
    ("<", Token::Less),
];

/// Takes words off the front of a text.
#[derive(Clone, Copy)]
pub struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// The next token and its text; `in` and `notin` are ordinary words where a key or a value stands.
    pub fn value(&mut self) -> (Token, &'a str) {
        match self.operator() {
            (Token::In | Token::NotIn, text) => (Token::Word, text),
            other => other,
        }
    }

    /// The next token where an operator may stand.
    pub fn operator(&mut self) -> (Token, &'a str) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if self.rest.is_empty() {
            return (Token::End, "");
        }
        if let Some((sign, token)) = SIGNS.iter().find(|(sign, _)| self.rest.starts_with(sign)) {
            return (*token, self.take(sign.len()));
        }
        let ends = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n' | '=' | '!' | '(' | ')' | ',' | '>' | '<');
        let word = self.take(self.rest.find(ends).unwrap_or(self.rest.len()));
        let token = match word {
            "in" => Token::In,
            "notin" => Token::NotIn,
            _ => Token::Word,
        };
        (token, word)
    }

    /// The same as [`Lexer::value`], without taking it.
    pub fn peek(&self) -> (Token, &'a str) {
        let mut ahead = *self;
        ahead.value()
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }
}
