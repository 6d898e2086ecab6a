//! The local driver as a program: `local --endpoint unix:///run/csi.sock --pool /var/lib/pool --node-id n1`.

use bowline_drivers::local::{LocalFlags, run};
use bowline_host::real::{RealConfig, host};
use clap::Parser;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    local: LocalFlags,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let flags = Command::parse().local;
    let host = host(RealConfig::new(flags.pool.join("state")))?;
    let stop = CancellationToken::new();
    let ask = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        ask.cancel();
    });
    run(host, flags.config()?, flags.endpoint.path(), stop).await?;
    Ok(())
}
