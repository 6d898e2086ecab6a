//! The program that the tests start containers through: the subcommands every starter has, and one that
//! starts a container and then waits to be killed.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use bowline_host::real::{self, RealConfig, shim};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let code = match args[..] {
        [_, shim::SHIM_SUBCOMMAND, dir] => shim::shim_main(Path::new(dir)),
        [_, shim::INIT_SUBCOMMAND, dir] => shim::init_main(Path::new(dir)),
        [_, shim::EXEC_SUBCOMMAND, dir, caller, "--", ref argv @ ..] => {
            caller.parse().map_or(64, |caller| shim::exec_main(Path::new(dir), caller, &owned(argv)))
        }
        [_, "start", state_dir, spec] => start(state_dir, spec).map_or(1, |()| 0),
        _ => 64,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn owned(argv: &[&str]) -> Vec<String> {
    argv.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn start(state_dir: &str, spec: &str) -> std::io::Result<()> {
    let host = real::host(RealConfig::new(state_dir))?;
    let spec = serde_json::from_slice(&std::fs::read(spec)?)?;
    host.containers.start(&spec).await.map_err(std::io::Error::other)?;
    std::io::stdout().write_all(b".")?;
    std::io::stdout().flush()?;
    std::future::pending().await
}
