//! Carries out what a probe or a hook asks for.

use std::io;
use std::time::Duration;

use bowline_host::Host;
use bowline_host::containers::ExecSpec;
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::handlers::{Handler, HttpGet};
use super::model::Outcome;

/// As much of an answer as upstream keeps.
const OUTPUT_MAX: usize = 10 << 10;
const USER_AGENT: &str = "kube-probe/1.36";

/// Does it, for no longer than `timeout`.
pub async fn perform(
    host: &Host,
    container_id: &str,
    handler: &Handler,
    timeout: Option<Duration>,
) -> Outcome {
    let run = async {
        match handler {
            Handler::Exec(argv) => exec(host, container_id, argv).await,
            Handler::Http(get) => http(host, get).await,
            Handler::Tcp { host: name, port } => {
                tcp(host, &address(name, *port)).await.map(drop).into_outcome()
            }
            Handler::Sleep(time) => {
                tokio::time::sleep(*time).await;
                Outcome::Success
            }
        }
    };
    let Some(limit) = timeout else { return run.await };
    match tokio::time::timeout(limit, run).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Failure(late(handler, limit)),
    }
}

/// In upstream's words.
fn late(handler: &Handler, limit: Duration) -> String {
    match handler {
        Handler::Exec(argv) => {
            format!("command timed out: {:?} timed out after {}s", argv.join(" "), limit.as_secs())
        }
        Handler::Http(get) => format!(
            "Get {:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            url(get)
        ),
        Handler::Tcp { host, port } => format!("dial tcp {}: i/o timeout", address(host, *port)),
        Handler::Sleep(_) => format!("timed out after {}s", limit.as_secs()),
    }
}

trait IntoOutcome {
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Result<(), String> {
    fn into_outcome(self) -> Outcome {
        self.map_or_else(Outcome::Failure, |()| Outcome::Success)
    }
}

/// Success is exit code 0; what it wrote is the reason otherwise.
async fn exec(host: &Host, container_id: &str, argv: &[String]) -> Outcome {
    let spec = ExecSpec { argv: argv.to_vec(), stdin: false, tty: false };
    let session = match host.containers.exec(container_id, &spec).await {
        Ok(session) => session,
        Err(error) => return Outcome::Unknown(error.to_string()),
    };
    let errors = async {
        match session.stderr {
            Some(stderr) => beginning(stderr).await,
            None => Vec::new(),
        }
    };
    let (mut output, errors, ended) = tokio::join!(beginning(session.stdout), errors, session.ended);
    output.extend(errors);
    output.truncate(OUTPUT_MAX);
    match ended {
        Ok(0) => Outcome::Success,
        Ok(code) if output.is_empty() => Outcome::Failure(format!("command exited with {code}")),
        Ok(_) => Outcome::Failure(String::from_utf8_lossy(&output).into_owned()),
        Err(error) => Outcome::Unknown(error.to_string()),
    }
}

/// Reads to the end, so that the program never waits for a reader, and keeps the beginning.
async fn beginning(mut from: impl AsyncRead + Unpin) -> Vec<u8> {
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 4 << 10]);
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let room = OUTPUT_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..length.min(room)]);
    }
    kept
}

async fn tcp(host: &Host, address: &str) -> Result<bowline_host::net::BoxStream, String> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("dial tcp {address}: connect: connection refused"),
        _ => format!("dial tcp {address}: {error}"),
    };
    host.net.connect_tcp(address).await.map_err(refused)
}

/// Success is any status from 200 to 399; redirects are not followed.
async fn http(host: &Host, get: &HttpGet) -> Outcome {
    let failed = |why: String| Outcome::Failure(format!("Get {:?}: {why}", url(get)));
    let request = match request(get) {
        Ok(request) => request,
        Err(error) => return Outcome::Unknown(error.to_string()),
    };
    let stream = match tcp(host, &address(&get.host, get.port)).await {
        Ok(stream) => stream,
        Err(why) => return failed(why),
    };
    let (mut sender, connection) = match hyper::client::conn::http1::handshake(TokioIo::new(stream)).await {
        Ok(parts) => parts,
        Err(error) => return failed(error.to_string()),
    };
    let answer = async {
        let mut response = sender.send_request(request).await?;
        let status = response.status();
        let mut read = 0;
        while let Some(frame) = response.frame().await {
            read += frame?.data_ref().map_or(0, Bytes::len);
            if read > OUTPUT_MAX {
                break;
            }
        }
        Ok::<_, hyper::Error>(status)
    };
    let driven = async {
        // The connection does the reading and writing; it ends with the answer or is dropped after it.
        match connection.await {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    };
    let status = tokio::select! {
        biased;
        answer = answer => answer,
        error = driven => Err(error),
    };
    match status {
        Ok(status) if (200..400).contains(&status.as_u16()) => Outcome::Success,
        Ok(status) => Outcome::Failure(format!("HTTP probe failed with statuscode: {}", status.as_u16())),
        Err(error) => failed(error.to_string()),
    }
}

fn request(get: &HttpGet) -> Result<Request<Empty<Bytes>>, http::Error> {
    let uri: Uri = escaped(&get.path).parse()?;
    let mut request = Request::get(uri).header(http::header::CONNECTION, "close");
    let given = |name: &str| get.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let address = address(&get.host, get.port);
    for (name, value) in [("host", address.as_str()), ("user-agent", USER_AGENT), ("accept", "*/*")] {
        if !given(name) {
            request = request.header(name, value);
        }
    }
    for (name, value) in &get.headers {
        request = request.header(name, value);
    }
    request.body(Empty::new())
}

/// A path, perhaps with a query, as it may stand in a request: what is escaped already stays, and what no URL may hold is
/// escaped. What is behind a `#` is not sent.
fn escaped(path: &str) -> String {
    let path = path.split('#').next().unwrap_or_default();
    let mut escaped = String::with_capacity(path.len());
    for (at, byte) in path.bytes().enumerate() {
        let hex = |offset: usize| path.as_bytes().get(at + offset).is_some_and(u8::is_ascii_hexdigit);
        let stays = match byte {
            b'%' => hex(1) && hex(2),
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => false,
            other => other.is_ascii_graphic(),
        };
        match stays {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn url(get: &HttpGet) -> String {
    format!("http://{}{}", address(&get.host, get.port), get.path)
}

/// An IPv6 address stands in brackets before a port.
fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_probes_are_escaped_once() {
        let table = [
            ("/healthz?full=1&x=a%20b", "/healthz?full=1&x=a%20b"),
            ("/a b/\u{e4}", "/a%20b/%C3%A4"),
            ("/100%", "/100%25"),
            ("/{id}#part", "/%7Bid%7D"),
        ];
        for (path, want) in table {
            assert_eq!(escaped(path), want);
            let get = HttpGet { host: "::1".into(), port: 80, path: path.into(), headers: Vec::new() };
            assert_eq!(request(&get).unwrap().uri().to_string(), want);
        }
    }
}
