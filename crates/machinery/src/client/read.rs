//! What the API server answers, read without the record of who set which field.
//!
//! No role looks at `managedFields`, and they are a third of most objects; upstream's controllers drop them from their
//! caches, too. An object that is sent back without them leaves them as they are.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use bowline_api::span;
use futures::io::{AsyncBufRead, AsyncBufReadExt};
use http::header::{ACCEPT_ENCODING, HeaderValue};
use kube::core::{ObjectList, Status, WatchEvent};
use serde::de::DeserializeOwned;

use super::{Client, Object, shared};

type Request = http::Request<Vec<u8>>;

pub async fn object<K: Object>(client: &Client, request: Request) -> Result<Arc<K>, kube::Error> {
    let text = client.request_text(request).await?;
    one(text.as_bytes())
}

/// The object that was deleted; none where the server answers with a Status alone.
pub async fn deleted<K: Object>(client: &Client, request: Request) -> Result<Option<Arc<K>>, kube::Error> {
    let text = client.request_text(request).await?;
    let json = text.as_bytes();
    if span::member(json, "kind") == Some(br#""Status""#) {
        return Ok(None);
    }
    one(json).map(Some)
}

pub async fn list<K: Object>(client: &Client, request: Request) -> Result<ObjectList<K>, kube::Error> {
    let text = client.request_text(request).await?;
    decoded(span::list_without_records(text.as_bytes()))
}

/// One object, as it is or as another process on this thread has read it.
fn one<K: Object>(json: &[u8]) -> Result<Arc<K>, kube::Error> {
    shared::decoded(json, || decoded(span::without_record(json)))
}

fn decoded<T: DeserializeOwned>(json: Cow<'_, [u8]>) -> Result<T, kube::Error> {
    serde_json::from_slice(&json).map_err(kube::Error::SerdeError)
}

/// What a watch tells.
pub enum Event<K> {
    Applied(Arc<K>),
    Deleted(Arc<K>),
    /// Everything up to this version was told.
    Passed(u64),
    Failed(Box<Status>),
}

/// The lines of a watch.
pub struct Events<K> {
    lines: Pin<Box<dyn AsyncBufRead + Send>>,
    /// What was read of the next line.
    line: Vec<u8>,
    kind: PhantomData<fn() -> K>,
}

pub async fn events<K: Object>(client: &Client, mut request: Request) -> Result<Events<K>, kube::Error> {
    // Servers may compress each event by itself, which the client does not read beyond the first one.
    request.headers_mut().entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
    let lines = Box::pin(client.request_stream(request).await?);
    Ok(Events { lines, line: Vec::new(), kind: PhantomData })
}

impl<K: Object> Events<K> {
    /// The next event; none at the end, be it in the middle of a line.
    pub async fn next(&mut self) -> Option<Result<Event<K>, kube::Error>> {
        loop {
            match self.lines.read_until(b'\n', &mut self.line).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if is_end(&error) => return None,
                Err(error) => return Some(Err(kube::Error::ReadEvents(error))),
            }
            let event = event(&self.line);
            self.line.clear();
            match event {
                Err(kube::Error::SerdeError(error)) if error.is_eof() => {}
                event => return Some(event),
            }
        }
    }
}

fn event<K: Object>(line: &[u8]) -> Result<Event<K>, kube::Error> {
    match parts(line) {
        Some((b"ADDED" | b"MODIFIED", object)) => return one(object).map(Event::Applied),
        Some((b"DELETED", object)) => return one(object).map(Event::Deleted),
        _ => {}
    }
    match decoded::<WatchEvent<K>>(span::event_without_record(line)) {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Ok(Event::Applied(object.into())),
        Ok(WatchEvent::Deleted(object)) => Ok(Event::Deleted(object.into())),
        Ok(WatchEvent::Bookmark(mark)) => {
            Ok(Event::Passed(mark.metadata.resource_version.parse().unwrap_or(0)))
        }
        Ok(WatchEvent::Error(status)) => Ok(Event::Failed(status)),
        // A server that cannot go on may send its reason as it is.
        Err(error) => match serde_json::from_slice::<Status>(line) {
            Ok(status) => Err(kube::Error::Api(status.boxed())),
            Err(_) => Err(error),
        },
    }
}

/// The type and the object of a line as servers write it.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\n").unwrap_or(line).strip_suffix(b"}")?;
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let (word, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'"')?);
    Some((word, rest.strip_prefix(br#"","object":"#)?))
}

/// Whether the connection ended without a word, as those of servers and proxies do that restart or have had enough.
fn is_end(error: &io::Error) -> bool {
    if error.to_string().contains("unexpected EOF during chunk") {
        return true;
    }
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use bowline_api::{ConfigMap, Meta};

    use super::*;

    const OBJECT: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"managedFields":[{"manager":"m"}],"name":"a","resourceVersion":"7"},"data":{"k":"}\n"}}"#;

    fn told(line: &str) -> String {
        let shown = |object: Arc<ConfigMap>| {
            let kept = if object.metadata.managed_fields.is_some() { " with its record" } else { "" };
            format!("{} {:?}{kept}", object.name(), object.data.iter().flatten().collect::<Vec<_>>())
        };
        match event::<ConfigMap>(line.as_bytes()) {
            Ok(Event::Applied(object)) => format!("applied {}", shown(object)),
            Ok(Event::Deleted(object)) => format!("deleted {}", shown(object)),
            Ok(Event::Passed(version)) => format!("passed {version}"),
            Ok(Event::Failed(status)) => format!("failed {}", status.code),
            Err(kube::Error::Api(status)) => format!("refused {}", status.code),
            Err(kube::Error::SerdeError(error)) if error.is_eof() => "cut off".into(),
            Err(_) => "unreadable".into(),
        }
    }

    /// Goal: every line that a server may send is understood, whatever the order of its members, and no record is kept.
    #[test]
    fn lines_of_a_watch() {
        let object = r#"a [("k", "}\n")]"#;
        let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"gone","reason":"Expired","code":410}"#;
        let bookmark = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"9"}}"#;
        let cases = [
            (format!("{{\"type\":\"ADDED\",\"object\":{OBJECT}}}\n"), format!("applied {object}")),
            (format!("{{\"type\":\"MODIFIED\",\"object\":{OBJECT}}}"), format!("applied {object}")),
            (format!("{{\"type\":\"DELETED\",\"object\":{OBJECT}}}\n"), format!("deleted {object}")),
            (format!("{{ \"type\": \"DELETED\", \"object\": {OBJECT} }}\n"), format!("deleted {object}")),
            (format!("{{\"object\":{OBJECT},\"type\":\"ADDED\"}}\n"), format!("applied {object}")),
            (format!("{{\"type\":\"BOOKMARK\",\"object\":{bookmark}}}\n"), "passed 9".into()),
            (format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n"), "failed 410".into()),
            (format!("{status}\n"), "refused 410".into()),
            (format!("{{\"type\":\"ADDED\",\"object\":{}", &OBJECT[..40]), "cut off".into()),
            ("\n".into(), "cut off".into()),
            ("{\"type\":\"ADDED\",\"object\":1}\n".into(), "unreadable".into()),
        ];
        for (line, want) in cases {
            assert_eq!(told(&line), want, "{line}");
        }
    }
}
