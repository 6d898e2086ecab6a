//! Parameters of a request, read as upstream reads them.

use jiff::Timestamp;

/// In the order in which they came.
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn get<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Anything but an explicit no is a yes.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    pub fn number(&self, name: &str) -> Result<Option<i64>, BadQuery> {
        self.get(name).map(|value| value.parse().map_err(|_| BadQuery)).transpose()
    }

    pub fn time(&self, name: &str) -> Result<Option<Timestamp>, BadQuery> {
        self.get(name).map(|value| value.parse().map_err(|_| BadQuery)).transpose()
    }
}

/// A parameter that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct BadQuery;
