//! Expressions as trees.

/// Offset of a character in the source.
pub type At = usize;

#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub at: At,
    pub node: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Name(String),
    /// `a.b`; with `optional` it is `a.?b`.
    Select {
        of: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `has(a.b)`.
    Has {
        of: Box<Expr>,
        field: String,
    },
    /// `a[b]`; with `optional` it is `a[?b]`.
    Index {
        of: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    /// Operators are calls, too, by the names that upstream gives them.
    Call {
        name: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    If {
        condition: Box<Expr>,
        then: Box<Expr>,
        other: Box<Expr>,
    },
    Each(Box<Each>),
}

/// A macro that goes through a list or the keys of a map, or looks into an optional value.
#[derive(Debug, Clone, PartialEq)]
pub struct Each {
    pub what: What,
    pub of: Expr,
    /// One name for the element, or two for index and element, or key and value.
    pub names: Vec<String>,
    /// Which elements are mapped, if not all.
    pub only: Option<Expr>,
    pub body: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
    /// A map with other values.
    TransformMap,
    SortBy,
    /// Of the value that an optional one has, if it has one; `OptFlatMap` of a body that is optional itself.
    OptMap,
    OptFlatMap,
}

impl Expr {
    pub fn children(&self) -> Vec<&Self> {
        match &self.node {
            Node::List(items) | Node::And(items) | Node::Or(items) => items.iter().collect(),
            Node::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            Node::Select { of, .. } | Node::Has { of, .. } => vec![of],
            Node::Index { of, index, .. } => vec![of, index],
            Node::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            Node::If { condition, then, other } => vec![condition, then, other],
            Node::Each(each) => [&each.of, &each.body].into_iter().chain(&each.only).collect(),
            Node::Null
            | Node::Bool(_)
            | Node::Int(_)
            | Node::Uint(_)
            | Node::Double(_)
            | Node::Text(_)
            | Node::Bytes(_)
            | Node::Name(_) => Vec::new(),
        }
    }
}
