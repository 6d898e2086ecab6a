//! Query parameters.

use crate::golang::{parse_fault, quoted};
use crate::status::Status;

/// Decoded parameters in the order in which they came.
#[derive(Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
        });
        Self { pairs: pairs.collect() }
    }

    /// A parameter that counts before any other of its name. The value is decoded already.
    pub fn put_first(&mut self, name: &str, value: String) {
        self.pairs.insert(0, (name.to_owned(), value));
    }

    /// The first value of a parameter; empty if it is absent.
    pub fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Every value of a parameter.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.pairs.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(known, _)| known == name)
    }

    /// Upstream's reading of booleans: anything but an explicit no is a yes, once the name is there.
    pub fn flag(&self, name: &str) -> bool {
        self.has(name) && !matches!(self.get(name).to_ascii_lowercase().as_str(), "false" | "0")
    }

    /// A number above zero; anything below means the same as nothing.
    pub fn count(&self, name: &str) -> Result<Option<u64>, Status> {
        let wrong = |text, error| {
            let why = parse_fault(&error);
            Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quoted(text)))
        };
        match self.get(name) {
            "" => Ok(None),
            text => {
                let number: i64 = text.parse().map_err(|error| wrong(text, error))?;
                Ok(u64::try_from(number).ok().filter(|number| *number > 0))
            }
        }
    }

    /// Whether the request is to change nothing.
    pub fn dry_run(&self) -> Result<bool, Status> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(Status::bad_request(format!(
                "dryRun: Unsupported value: {other:?}: supported values: \"All\""
            ))),
        }
    }
}

/// Percent-decodes one part of an address; what is malformed stays as it is.
pub fn decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match hex {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let query = Query::parse("labelSelector=app+in+%28a%2Cb%29&watch=true&limit=5&odd=%zz&flag&no=0");
        assert_eq!(query.get("labelSelector"), "app in (a,b)");
        assert_eq!(query.get("odd"), "%zz");
        assert_eq!(query.count("limit").unwrap(), Some(5));
        assert!(query.count("odd").is_err() && query.count("none").unwrap().is_none());
        let fault = |text: &str| Query::parse(&format!("limit={text}")).count("limit").unwrap_err().message;
        assert_eq!(fault("many"), r#"strconv.ParseInt: parsing "many": invalid syntax"#);
        let huge = "99999999999999999999";
        assert_eq!(fault(huge), format!("strconv.ParseInt: parsing \"{huge}\": value out of range"));
        assert_eq!(query.count("no").unwrap(), None);
        assert!(query.flag("watch") && query.flag("flag") && !query.flag("no") && !query.flag("none"));
    }
}
