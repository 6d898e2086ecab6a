//! Runs the two subcommands of containers, and nothing else: the tests start containers through it.

use std::path::Path;
use std::process::ExitCode;

use bowline_host::real::shim;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let code = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, shim::SHIM_SUBCOMMAND, dir] => shim::shim_main(Path::new(dir)),
        [_, shim::INIT_SUBCOMMAND, dir] => shim::init_main(Path::new(dir)),
        _ => 64,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
