//! `bowline node`: cuts a node of `bowline up --nodes` off from the API server, and joins it again.
//!
//! One line each way over a socket in the data directory: `cut NAME` or `join NAME`, answered by `ok` or the reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_host::Host;
use bowline_host::net::BoxStream;
use bowline_host::real::{self, RealConfig};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::relay::Relay;

/// Longest line that is read.
const LINE_MAX: u64 = 1024;
/// How long a client has for its line.
const QUESTION_TIME: Duration = Duration::from_secs(10);
/// After a failed accept, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub fn socket(data_dir: &Path) -> PathBuf {
    data_dir.join("nodes").join("control.sock")
}

/// Cut a node of `bowline up --nodes` off from the API server, or join it again
#[derive(clap::Subcommand)]
pub enum NodeCommand {
    /// End the node's connections to the API server and take no new ones
    Cut(Which),
    /// Let the node reach the API server again
    Join(Which),
}

#[derive(clap::Args)]
pub struct Which {
    /// Name of the node, e.g. this-machine-2
    name: String,
    /// Data directory of the running `bowline up`
    #[arg(long, value_name = "DIR", default_value = "/var/lib/bowline")]
    data_dir: PathBuf,
}

impl NodeCommand {
    pub async fn run(self) -> Result<ExitCode> {
        let (verb, which) = match self {
            Self::Cut(which) => ("cut", which),
            Self::Join(which) => ("join", which),
        };
        let host = real::host(RealConfig::new(&which.data_dir)).context("open this machine")?;
        let socket = socket(&which.data_dir);
        let stream = host.net.connect(&socket).await;
        let mut stream = stream.with_context(|| {
            format!("reach `bowline up --nodes` at `{}`: does it run with this --data-dir", socket.display())
        })?;
        let asked = format!("{verb} {}\n", which.name);
        stream.write_all(asked.as_bytes()).await.context("ask `bowline up`")?;
        match line(stream).await?.trim() {
            "ok" => Ok(ExitCode::SUCCESS),
            why => bail!("{verb} node `{}`: {why}", which.name),
        }
    }
}

/// Answers until `stop`.
pub async fn serve(
    host: &Host,
    data_dir: &Path,
    relays: BTreeMap<String, Relay>,
    stop: CancellationToken,
) -> Result<()> {
    let socket = socket(data_dir);
    let listener = host.net.listen(&socket).await;
    let mut listener = listener.with_context(|| format!("listen on `{}`", socket.display()))?;
    let relays = Arc::new(relays);
    tokio::spawn(async move {
        while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "accept a connection of `bowline node`");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Each on its own: one that says nothing must not keep the others waiting.
            let relays = relays.clone();
            tokio::spawn(async move {
                match timeout(QUESTION_TIME, answer(stream, &relays)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "a question about a node"),
                    Err(_) => tracing::debug!("a question about a node did not come in time"),
                }
            });
        }
    });
    Ok(())
}

async fn answer(stream: BoxStream, relays: &BTreeMap<String, Relay>) -> Result<()> {
    let mut reader = BufReader::new(stream.take(LINE_MAX));
    let mut asked = String::new();
    reader.read_line(&mut asked).await?;
    let said = act(asked.trim(), relays).unwrap_or_else(|why| why);
    let mut stream = reader.into_inner().into_inner();
    stream.write_all(format!("{said}\n").as_bytes()).await?;
    Ok(())
}

fn act(asked: &str, relays: &BTreeMap<String, Relay>) -> Result<String, String> {
    let (verb, name) = asked.split_once(' ').ok_or("not understood")?;
    let names = || relays.keys().cloned().collect::<Vec<_>>().join(", ");
    let relay = relays.get(name).ok_or_else(|| format!("it is none of {}", names()))?;
    match verb {
        "cut" => relay.set_cut(true),
        "join" => relay.set_cut(false),
        _ => return Err("not understood".into()),
    }
    tracing::info!(node = name, verb, "the node's way to the API server");
    Ok("ok".into())
}

async fn line(stream: BoxStream) -> Result<String> {
    let mut text = String::new();
    BufReader::new(stream.take(LINE_MAX)).read_line(&mut text).await.context("read the answer")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_does_not_keep_others_waiting() {
        let (host, _) = bowline_host::fake::host(1);
        let data_dir = Path::new("/data");
        host.disk.create_dir_all(&data_dir.join("nodes"), 0o700).await.expect("a directory");
        let stop = CancellationToken::new();
        serve(&host, data_dir, BTreeMap::new(), stop.clone()).await.expect("serving");
        let mut silent = host.net.connect(&socket(data_dir)).await.expect("connected");
        let mut asking = host.net.connect(&socket(data_dir)).await.expect("connected");
        asking.write_all(b"cut n\n").await.expect("asked");
        let answered = timeout(Duration::from_secs(5), line(asking)).await;
        assert_eq!(answered.expect("answered").expect("a line"), "it is none of \n");
        let mut rest = String::new();
        silent.read_to_string(&mut rest).await.expect("closed after a while");
        assert_eq!(rest, "");
        stop.cancel();
    }
}
