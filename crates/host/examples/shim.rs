//! The program that the tests start containers through: the subcommands every starter has, and one that
//! starts a container and then waits to be killed.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;

use bowline_host::real::{self, RealConfig, shim};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let code = shim::subcommand(&args).unwrap_or_else(|| match &args[..] {
        [_, word, state_dir, spec] if word == "start" => start(state_dir, spec).map_or(1, |()| 0),
        _ => 64,
    });
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

#[tokio::main(flavor = "current_thread")]
async fn start(state_dir: &OsStr, spec: &OsStr) -> std::io::Result<()> {
    let host = real::host(RealConfig::new(state_dir))?;
    let spec = serde_json::from_slice(&std::fs::read(spec)?)?;
    host.containers.start(&spec).await.map_err(std::io::Error::other)?;
    std::io::stdout().write_all(b".")?;
    std::io::stdout().flush()?;
    std::future::pending().await
}
