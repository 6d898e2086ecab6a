//! Flags, and the life of the socket.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bowline_host::net::DirEvent;
use bowline_machinery::backoff::Backoff as Pauses;
use bowline_machinery::csi::Driver;
use bowline_machinery::incoming::accepted;
use bowline_machinery::{EffectError, Effects, Fate, Ports, RunError, flags, identity};
use bowline_proto::pluginregistration::registration_server::RegistrationServer;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::transport::Server;

use super::serve::Registrar;

/// Upstream's name in the journal.
pub const NAME: &str = "node-driver-registrar";
/// Permissions of the kubelet's registration directory.
const REGISTRY_MODE: u32 = 0o750;
/// How long a driver has to come up, as upstream's waits for its socket. A call that began in time has its own timeout.
const PATIENCE: Duration = Duration::from_secs(30);
/// First and longest pause between two questions to a driver that does not answer.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Socket of the CSI driver
    #[arg(long, default_value = "/run/csi/socket", value_parser = flags::socket)]
    pub csi_address: PathBuf,
    /// The same socket, as the kubelet reaches it
    #[arg(long, default_value = "")]
    pub kubelet_registration_path: String,
    /// Directory that the kubelet watches for registration sockets
    #[arg(long, default_value = "/registration")]
    pub plugin_registration_path: PathBuf,
    /// Deadline of each call to the driver
    #[arg(long, default_value = "1s", value_parser = flags::duration)]
    pub timeout: Duration,
}

/// The driver's name, once it is known.
pub type Named = Arc<OnceLock<String>>;

/// The registration socket of a driver, as upstream names it.
pub fn socket_name(driver: &str) -> String {
    format!("{driver}-reg.sock")
}

/// Presents the driver to the kubelet until stopped, or refused.
pub async fn run(ports: Ports, flags: Flags, named: Named) -> Result<(), RunError> {
    let driver = Driver::at(&ports.host, &flags.csi_address);
    let effects = ports.effects(NAME).measured(&ports.metrics, "");
    let name = tokio::select! {
        biased;
        () = ports.stop.cancelled() => return Ok(()),
        name = name(&driver, &effects, flags.timeout) => name,
    };
    let name = name.map_err(|source| RunError::Effect { what: "ask the CSI driver for its name", source })?;

    let _ = named.set(name.clone());
    let socket = flags.plugin_registration_path.join(socket_name(&name));
    let io = |what| {
        let path = socket.display().to_string();
        move |source| RunError::Io { what, path, source }
    };
    // In one process with the kubelet, either may come first.
    let registry = &flags.plugin_registration_path;
    ports.host.disk.create_dir_all(registry, REGISTRY_MODE).await.map_err(io("create the directory of"))?;
    loop {
        let listener = ports.host.net.listen(&socket).await.map_err(io("listen on"))?;
        let (refusal, refused) = watch::channel(None);
        let registrar =
            Registrar { driver: name.clone(), endpoint: flags.kubelet_registration_path.clone(), refusal };
        let server = Server::builder()
            .add_service(RegistrationServer::new(registrar))
            .serve_with_incoming_shutdown(accepted(listener), ended(&ports, refused.clone()));
        let served = tokio::select! {
            served = server => served,
            () = removed(&ports, &socket) => {
                tracing::warn!(socket = %socket.display(), "registration socket was removed; making it again");
                continue;
            }
        };
        // The kubelet forgets the driver when the socket goes.
        ports.host.disk.remove_file(&socket).await.map_err(io("remove"))?;
        let refusal = refused.borrow().clone();
        return match (served, refusal) {
            (_, Some(error)) => Err(RunError::Refused(format!("the kubelet refused driver {name}: {error}"))),
            (Err(error), None) => Err(RunError::Refused(format!("serve `{}`: {error}", socket.display()))),
            (Ok(()), None) if ports.stop.is_cancelled() => Ok(()),
            (Ok(()), None) => Err(RunError::Refused(format!("`{}` no longer accepts", socket.display()))),
        };
    }
}

/// Completes when the socket that stands there now is gone. While that cannot be watched, the socket is served all the same.
async fn removed(ports: &Ports, socket: &Path) {
    let mut pauses = Pauses::new(ports.host.random.clone());
    while let Err(error) = watch_removal(ports, socket).await {
        let (path, pause) = (socket.display(), pauses.failed());
        tracing::warn!(%path, %error, ?pause, "cannot watch the registration socket, trying again; `sysctl fs.inotify` shows the limits");
        tokio::time::sleep(pause).await;
    }
}

async fn watch_removal(ports: &Ports, socket: &Path) -> io::Result<()> {
    let registry = socket.parent().unwrap_or(socket);
    let mut events = ports.host.net.watch_dir(registry).await?;
    // It may have gone before the watch began.
    while ports.host.disk.kind(socket).await?.is_some() {
        match events.recv().await {
            Some(DirEvent::Removed(path)) if path == socket => return Ok(()),
            Some(_) => {}
            // Nobody watches any more; the socket is served as long as it stands.
            None => std::future::pending().await,
        }
    }
    Ok(())
}

/// The driver's name, as soon as it answers.
async fn name(driver: &Driver, effects: &Effects, timeout: Duration) -> Result<String, EffectError> {
    let (begun, mut pause) = (Instant::now(), PAUSE.0);
    loop {
        let error = match identity::name(driver, effects, timeout).await {
            Err(error) if error.fate == Fate::Unknown => error,
            answer => return answer,
        };
        if begun.elapsed() >= PATIENCE {
            let (socket, why) = (driver.path().display(), error.message);
            let message = format!("no driver answers at `{socket}` after {PATIENCE:?}: {why}");
            return Err(EffectError::unknown(message));
        }
        tracing::debug!(socket = %driver.path().display(), %error, "driver does not answer yet");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Asked to stop, or refused by the kubelet.
async fn ended(ports: &Ports, mut refused: watch::Receiver<Option<String>>) {
    tokio::select! {
        biased;
        () = ports.stop.cancelled() => {}
        _ = refused.wait_for(Option::is_some) => {}
    }
}
