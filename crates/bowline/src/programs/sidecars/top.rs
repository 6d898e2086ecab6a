//! `bowline sidecars top`: what a running `bowline sidecars` works on and what waits, for people.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_host::Host;
use bowline_machinery::backlog::Operation;
use bowline_machinery::flags::{LoggingArgs, Program, Syntax, duration};
use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::super::process::Process;
use super::super::{Group, Run, VERSION};
use crate::terminal::Terminal;

/// Longest time for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer that is read.
const ANSWER_MAX: u64 = 16 << 20;
/// Longest error that a line shows; -o json has all of it.
const SHOWN: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub struct Top {
    /// HOST:PORT of its --http-endpoint
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    http_endpoint: String,
    /// How it is printed
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Print again after this long, until interrupted; 0 prints once
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    interval: Duration,
    #[command(flatten)]
    logging: LoggingArgs,
}

impl Run for Top {
    const PROGRAM: Program = Program {
        name: "sidecars top",
        about: "Shows what a running `bowline sidecars` works on and what waits",
        syntax: Syntax::Pflag,
        upstream: &[],
        defaults: &[],
        version: Some(VERSION),
    };
    const GROUP: Group = Group::Sidecars;
    const ADDITIONS: &'static [&'static str] =
        &["http-endpoint", "output", "interval", "v", "logging-format"];

    fn logging(&self) -> &LoggingArgs {
        &self.logging
    }
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
    async fn run(self) -> Result<ExitCode> {
        let process = Process::begin()?;
        loop {
            let text = self.ask(&process.host).await?;
            self.print(&text)?;
            if self.interval.is_zero() {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::select! {
                biased;
                () = process.stop.cancelled() => return Ok(ExitCode::SUCCESS),
                () = tokio::time::sleep(self.interval) => {}
            }
        }
    }
}

impl Top {
    async fn ask(&self, host: &Host) -> Result<String> {
        let address = match self.http_endpoint.strip_prefix(':') {
            Some(port) => format!("127.0.0.1:{port}"),
            None => self.http_endpoint.clone(),
        };
        let asked = async {
            let mut stream = host.net.connect_tcp(&address).await?;
            let request = format!("GET /debug/queue HTTP/1.0\r\nHost: {address}\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.take(ANSWER_MAX).read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = timeout(PATIENCE, asked).await;
        let answer = answer.with_context(|| format!("`{address}` does not answer within {PATIENCE:?}"))?;
        let answer = answer.with_context(|| {
            format!("ask `{address}`: is it the --http-endpoint of a running `bowline sidecars`?")
        })?;
        body(&answer, &address).map(String::from)
    }

    fn print(&self, text: &str) -> Result<()> {
        let terminal = Terminal::default();
        if self.output == Output::Json {
            terminal.line(text.trim_end());
            return Ok(());
        }
        let mut value: Value = serde_json::from_str(text).context("read the answer of /debug/queue")?;
        let operations: Vec<Operation> =
            serde_json::from_value(value["operations"].take()).context("read the answer of /debug/queue")?;
        for line in table(&operations) {
            terminal.line(line);
        }
        Ok(())
    }
}

/// The body of an answer with status 200.
pub(super) fn body<'a>(answer: &'a str, address: &str) -> Result<&'a str> {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("`{address}` does not speak HTTP");
    };
    let status = head.lines().next().unwrap_or_default();
    if status.split_whitespace().nth(1) != Some("200") {
        bail!("`{address}` has no /debug/queue ({status}): only `bowline sidecars` with --http-endpoint has");
    }
    Ok(body)
}

/// One line per operation, columns aligned.
pub(super) fn table(operations: &[Operation]) -> Vec<String> {
    let head =
        ["CONTROLLER", "OPERATION", "WAITING", "OLDEST", "IN FLIGHT", "LONGEST", "FAILING", "LAST ERROR"];
    let mut rows = vec![head.map(String::from)];
    rows.extend(operations.iter().map(row));
    let widths: Vec<usize> = (0..head.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row(one: &Operation) -> [String; 8] {
    let seconds = |count: usize, seconds: f64| match count {
        0 => "-".to_owned(),
        _ => format!("{seconds:.1}s"),
    };
    let error = one.last_error.as_ref().map_or_else(
        || "-".to_owned(),
        |error| {
            let text = format!("{:.0}s ago, {}: {}", error.seconds_ago, error.object, error.message);
            match text.char_indices().nth(SHOWN) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        },
    );
    [
        one.controller.clone(),
        one.operation.clone(),
        one.depth.to_string(),
        seconds(one.depth, one.oldest_seconds),
        one.in_flight.to_string(),
        seconds(one.in_flight, one.longest_seconds),
        one.failing.to_string(),
        error,
    ]
}
