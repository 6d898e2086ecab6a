//! Flags, and one probe.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_host::Host;
use bowline_machinery::csi::{Classes, Driver, call};
use bowline_machinery::serve::Answer;
use bowline_machinery::{EffectError, Effects, flags, identity};
use bowline_proto::csi::v1::ProbeRequest;
use http::StatusCode;
use tokio::time::timeout;

/// Upstream's name in the journal.
pub const NAME: &str = "livenessprobe";
/// The question for the driver's name has no deadline upstream; gRPC can only write finite ones.
const UNLIMITED: Duration = Duration::from_secs(365 * 24 * 3600);
/// Pause between two tries to reach the socket.
const PAUSE: Duration = Duration::from_millis(100);

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Socket of the CSI driver
    #[arg(long, default_value = "/run/csi/socket", value_name = "PATH", value_parser = flags::socket)]
    pub csi_address: PathBuf,
    /// Longest time for one probe, connection included
    #[arg(long, default_value = "3s", value_name = "DURATION", value_parser = flags::duration)]
    pub probe_timeout: Duration,
}

/// The driver's name, however long it takes to come up. Only an answer that refuses is an error.
pub async fn name(host: &Host, socket: &Path, effects: &Effects) -> Result<String, EffectError> {
    while let Err(error) = host.net.connect(socket).await {
        tracing::debug!(socket = %socket.display(), %error, "waiting for the driver");
        tokio::time::sleep(PAUSE).await;
    }
    identity::name(&Driver::at(host, socket), effects, UNLIMITED).await
}

/// Asks the driver on a connection of its own; says what is wrong.
pub async fn probe(host: &Host, socket: &Path, effects: &Effects, patience: Duration) -> Result<(), String> {
    let asked = async {
        let driver = &Driver::at(host, socket);
        let send = |request| async move { driver.identity().probe(request).await };
        call(effects, "Probe", "driver", patience, Classes::Default, ProbeRequest {}, send).await
    };
    match timeout(patience, asked).await {
        // A driver that does not say is ready.
        Ok(Ok(answer)) if answer.ready.unwrap_or(true) => Ok(()),
        Ok(Ok(_)) => Err("driver responded but is not ready".to_owned()),
        Ok(Err(error)) => Err(error.message),
        Err(_) => Err(format!("driver at `{}` did not answer Probe within {patience:?}", socket.display())),
    }
}

/// The page that the kubelet asks for.
pub async fn health(host: Host, flags: Flags, effects: Effects) -> Answer {
    match probe(&host, &flags.csi_address, &effects, flags.probe_timeout).await {
        Ok(()) => Answer::ok("ok"),
        Err(why) => {
            tracing::warn!(error = %why, "health check failed");
            Answer::new(StatusCode::INTERNAL_SERVER_ERROR, why)
        }
    }
}
