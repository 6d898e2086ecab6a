//! From tokens to a tree.

use super::ast::{At, Each, Expr, Node, What};
use super::escape::RESERVED;
use super::lexer::{Token, tokens};
use super::report::Issue;

/// How deep expressions may nest, in brackets and as a tree: evaluation must not exhaust the stack.
const DEPTH_MAX: usize = 50;
const HEIGHT_MAX: usize = 100;
/// How long an expression may be.
const LENGTH_MAX: usize = 64 << 10;

const OPERANDS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

pub fn parse(source: &str) -> Result<Expr, Issue> {
    if source.len() > LENGTH_MAX {
        return Err(Issue::new(
            0,
            format!("expression code point size exceeds limit: size: {}, limit {LENGTH_MAX}", source.len()),
        ));
    }
    let mut parser = Parser { tokens: tokens(source)?, next: 0, depth: 0 };
    let expr = parser.expression()?;
    match parser.peek() {
        Token::End if is_higher(&expr, HEIGHT_MAX) => Err(too_deep(0)),
        Token::End => Ok(expr),
        _ => Err(Issue::new(
            parser.at(),
            format!("Syntax error: extraneous input '{}' expecting <EOF>", parser.shown()),
        )),
    }
}

fn too_deep(at: At) -> Issue {
    Issue::new(at, format!("expression recursion limit exceeded: {HEIGHT_MAX}"))
}

/// Measures with a list of what is left to do instead of by recursion.
fn is_higher(expr: &Expr, limit: usize) -> bool {
    let mut rest = vec![(expr, 1)];
    while let Some((expr, height)) = rest.pop() {
        if height > limit {
            return true;
        }
        rest.extend(expr.children().into_iter().map(|child| (child, height + 1)));
    }
    false
}

struct Parser {
    tokens: Vec<(At, Token)>,
    next: usize,
    depth: usize,
}

/// Operators of two sides: sign, strength, and upstream's name. `&&`, `||` and `?` are not calls.
const BINARY: [(&str, u8, &str); 11] = [
    ("==", 4, "_==_"),
    ("!=", 4, "_!=_"),
    ("<=", 4, "_<=_"),
    (">=", 4, "_>=_"),
    ("<", 4, "_<_"),
    (">", 4, "_>_"),
    ("+", 5, "_+_"),
    ("-", 5, "_-_"),
    ("*", 6, "_*_"),
    ("/", 6, "_/_"),
    ("%", 6, "_%_"),
];
const IN: (u8, &str) = (4, "@in");
const AND: u8 = 3;
const OR: u8 = 2;
const IF: u8 = 1;

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn at(&self) -> At {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(at, _)| *at)
    }

    fn take(&mut self) -> (At, Token) {
        let taken = (self.at(), self.peek().clone());
        self.next += 1;
        taken
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    fn accept(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), Issue> {
        if self.accept(sign) {
            return Ok(());
        }
        let text = format!("Syntax error: mismatched input '{}' expecting '{sign}'", self.shown());
        Err(Issue::new(self.at(), text))
    }

    fn shown(&self) -> String {
        match self.peek() {
            Token::Int(n) => n.to_string(),
            Token::Uint(n) => format!("{n}u"),
            Token::Double(n) => n.to_string(),
            Token::Text(text) => format!("{text:?}"),
            Token::Bytes(_) => "b\"…\"".to_owned(),
            Token::Name(name) => name.clone(),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::End => "<EOF>".to_owned(),
        }
    }

    fn unexpected(&self) -> Issue {
        Issue::new(
            self.at(),
            format!("Syntax error: mismatched input '{}' expecting {OPERANDS}", self.shown()),
        )
    }

    fn expression(&mut self) -> Result<Expr, Issue> {
        self.binary(IF)
    }

    /// Operands and operators that bind at least as strongly as `least`.
    fn binary(&mut self, least: u8) -> Result<Expr, Issue> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(self.at()));
        }
        let mut chain = 0;
        let mut left = self.unary()?;
        loop {
            let at = self.at();
            chain += 1;
            if chain > HEIGHT_MAX {
                return Err(too_deep(at));
            }
            if let Some((strength, name)) = self.operator().filter(|(strength, _)| *strength >= least) {
                self.next += 1;
                let right = self.binary(strength + 1)?;
                left = Expr {
                    at,
                    node: Node::Call { name: name.into(), target: None, args: vec![left, right] },
                };
            } else if least <= AND && self.accept("&&") {
                let right = self.binary(AND + 1)?;
                left = Expr { at, node: Node::And(joined(left, right, true)) };
            } else if least <= OR && self.accept("||") {
                let right = self.binary(OR + 1)?;
                left = Expr { at, node: Node::Or(joined(left, right, false)) };
            } else if least <= IF && self.accept("?") {
                let then = self.binary(OR)?;
                self.expect(":")?;
                let (condition, then, other) = (Box::new(left), Box::new(then), Box::new(self.binary(IF)?));
                left = Expr { at, node: Node::If { condition, then, other } };
            } else {
                self.depth -= 1;
                return Ok(left);
            }
        }
    }

    fn operator(&self) -> Option<(u8, &'static str)> {
        match self.peek() {
            Token::Sign(sign) => {
                let found = BINARY.into_iter().find(|(known, ..)| known == sign);
                found.map(|(_, strength, name)| (strength, name))
            }
            Token::Name(name) if name == "in" => Some(IN),
            _ => None,
        }
    }

    fn unary(&mut self) -> Result<Expr, Issue> {
        let at = self.at();
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            if !self.accept(sign) {
                continue;
            }
            // A number takes its minus along.
            match (sign, self.peek().clone()) {
                ("-", Token::Int(n)) => {
                    self.next += 1;
                    let number = Expr { at, node: Node::Int(if n == i64::MIN { n } else { -n }) };
                    return self.postfix(number);
                }
                ("-", Token::Double(n)) => {
                    self.next += 1;
                    return self.postfix(Expr { at, node: Node::Double(-n) });
                }
                _ => {}
            }
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(too_deep(at));
            }
            let of = self.unary()?;
            self.depth -= 1;
            return Ok(Expr { at, node: Node::Call { name: name.into(), target: None, args: vec![of] } });
        }
        let primary = self.primary()?;
        self.postfix(primary)
    }

    /// Selections, indices and calls that follow an operand.
    fn postfix(&mut self, mut of: Expr) -> Result<Expr, Issue> {
        let mut links = 0;
        loop {
            let at = self.at();
            links += 1;
            if links > HEIGHT_MAX {
                return Err(too_deep(at));
            }
            if self.is(".") || self.is(".?") {
                let optional = self.is(".?");
                self.next += 1;
                let Token::Name(field) = self.peek().clone() else {
                    let text =
                        format!("Syntax error: mismatched input '{}' expecting IDENTIFIER", self.shown());
                    return Err(Issue::new(self.at(), text));
                };
                self.next += 1;
                if self.is("(") && !optional {
                    of = self.call(field, Some(of))?;
                } else {
                    of = Expr { at, node: Node::Select { of: Box::new(of), field, optional } };
                }
            } else if self.is("[") || self.is("[?") {
                let optional = self.is("[?");
                self.next += 1;
                let index = Box::new(self.expression()?);
                self.expect("]")?;
                of = Expr { at, node: Node::Index { of: Box::new(of), index, optional } };
            } else {
                return Ok(of);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, Issue> {
        let (at, token) = (self.at(), self.peek().clone());
        let node = match token {
            Token::Int(n) => Node::Int(n),
            Token::Uint(n) => Node::Uint(n),
            Token::Double(n) => Node::Double(n),
            Token::Text(text) => Node::Text(text),
            Token::Bytes(bytes) => Node::Bytes(bytes),
            Token::Name(name) => return self.name(name),
            Token::Sign("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Sign("[") => {
                self.next += 1;
                return Ok(Expr { at, node: Node::List(self.list("]")?) });
            }
            Token::Sign("{") => {
                self.next += 1;
                return Ok(Expr { at, node: Node::Map(self.entries()?) });
            }
            // A leading dot names the root of all names, which is where names are looked up anyway.
            Token::Sign(".") => {
                self.next += 1;
                let Token::Name(name) = self.peek().clone() else { return Err(self.unexpected()) };
                return self.name(name);
            }
            _ => return Err(self.unexpected()),
        };
        self.next += 1;
        Ok(Expr { at, node })
    }

    fn name(&mut self, name: String) -> Result<Expr, Issue> {
        let (at, _) = self.take();
        let node = match name.as_str() {
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            "null" => Node::Null,
            "in" => {
                self.next -= 1;
                return Err(self.unexpected());
            }
            reserved if RESERVED.contains(&reserved) => {
                return Err(Issue::new(at, format!("reserved identifier: {reserved}")));
            }
            _ if self.is("(") => return self.call(name, None),
            _ => Node::Name(name),
        };
        Ok(Expr { at, node })
    }

    /// Expressions between commas, up to a closing sign.
    fn list(&mut self, close: &str) -> Result<Vec<Expr>, Issue> {
        let mut items = Vec::new();
        while !self.accept(close) {
            items.push(self.expression()?);
            if !self.accept(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    fn entries(&mut self) -> Result<Vec<(Expr, Expr)>, Issue> {
        let mut entries = Vec::new();
        while !self.accept("}") {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.accept(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }

    /// A call, or one of the macros that look like calls. Its place is that of the bracket.
    fn call(&mut self, name: String, target: Option<Expr>) -> Result<Expr, Issue> {
        let at = self.at();
        self.expect("(")?;
        let args = self.list(")")?;
        match (name.as_str(), target) {
            ("has", None) if args.len() == 1 => has(at, args),
            (macro_name, Some(of)) if what(macro_name, args.len()).is_some() => {
                each(at, macro_name, of, args)
            }
            (_, target) => Ok(Expr { at, node: Node::Call { name, target: target.map(Box::new), args } }),
        }
    }
}

/// Conditions in a row are one, so that many of them do not nest.
fn joined(left: Expr, right: Expr, and: bool) -> Vec<Expr> {
    match left.node {
        Node::And(mut parts) if and => {
            parts.push(right);
            parts
        }
        Node::Or(mut parts) if !and => {
            parts.push(right);
            parts
        }
        node => vec![Expr { at: left.at, node }, right],
    }
}

fn has(at: At, args: Vec<Expr>) -> Result<Expr, Issue> {
    match args.into_iter().next() {
        Some(Expr { node: Node::Select { of, field, optional: false }, .. }) => {
            Ok(Expr { at, node: Node::Has { of, field } })
        }
        other => {
            let at = other.map_or(at, |other| other.at);
            Err(Issue::new(at, "invalid argument to has() macro"))
        }
    }
}

/// What a macro does with so many arguments; `None` if it is none.
fn what(name: &str, args: usize) -> Option<What> {
    Some(match (name, args) {
        ("all", 2 | 3) => What::All,
        ("exists", 2 | 3) => What::Exists,
        ("exists_one" | "existsOne", 2 | 3) => What::ExistsOne,
        ("filter", 2) => What::Filter,
        ("map", 2 | 3) | ("transformList", 3 | 4) => What::Map,
        ("transformMap", 3 | 4) => What::TransformMap,
        ("sortBy", 2) => What::SortBy,
        ("optMap", 2) => What::OptMap,
        ("optFlatMap", 2) => What::OptFlatMap,
        _ => return None,
    })
}

fn each(at: At, name: &str, of: Expr, mut args: Vec<Expr>) -> Result<Expr, Issue> {
    let what = what(name, args.len());
    let (Some(what), Some(body)) = (what, args.pop()) else {
        return Err(Issue::new(at, "macro without arguments"));
    };
    // What is left are names, and a condition where there is one more than that.
    let names = if name.starts_with("transform") { 2 } else { 1 };
    let conditional = matches!(what, What::Map | What::TransformMap) && args.len() > names;
    let only = if conditional { args.pop() } else { None };
    let mut names = Vec::new();
    for arg in args {
        match arg.node {
            Node::Name(name) => names.push(name),
            _ => return Err(Issue::new(arg.at, "argument must be a simple name")),
        }
    }
    Ok(Expr { at, node: Node::Each(Box::new(Each { what, of, names, only, body })) })
}
