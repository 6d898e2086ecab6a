//! Query parameters.

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

    pub fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        match self.get(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Status::bad_request(format!("{name}: Invalid value: {text:?}: must be a number"))
            }),
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
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert!(query.number("odd").is_err() && query.number("none").unwrap().is_none());
        assert!(query.flag("watch") && query.flag("flag") && !query.flag("no") && !query.flag("none"));
    }
}
