//! The program: which of the two controllers the driver needs, and how they run beside each other.

use std::time::Duration;

use bowline_api::VolumeAttributesClass;
use bowline_machinery::{Ports, Role, RunError, Sidecar, role};
use clap::ArgAction;
use kube::Api;
use kube::api::ListParams;
use tokio_util::sync::CancellationToken;

use super::NAME;
use super::abilities::{Abilities, ask};
use super::expand::Resizer;
use super::modify::Modifier;

/// Between two questions whether the server has the kind.
const PAUSE: Duration = Duration::from_secs(1);

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Do not expand volumes that pods use if the driver refused that before
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub handle_volume_inuse_error: bool,
    /// Tell the driver the names of claim and volume when it modifies one
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub extra_modify_metadata: bool,
}

/// Feature gates that can be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    pub volume_attributes_class: bool,
}

/// Whether there is anything that a resizer can do for this driver.
pub async fn serves(ports: &Ports, sidecar: &Sidecar) -> Result<bool, RunError> {
    let abilities = ask(sidecar, &ports.questions(NAME)).await?;
    Ok(abilities.expansion.is_some() || abilities.modifies)
}

/// Runs both controllers, as far as the driver can do their work, until `ports.stop`.
pub async fn run(ports: Ports, sidecar: Sidecar, flags: Flags, gates: Gates) -> Result<(), RunError> {
    let questions = ports.questions(NAME).measured(&ports.metrics, &sidecar.identity.name);
    let Abilities { expansion, modifies } = ask(&sidecar, &questions).await?;
    let modifies = modifies && gates.volume_attributes_class && served(&ports).await?;
    if expansion.is_none() {
        tracing::info!(driver = sidecar.identity.name, "the driver expands no volumes");
    }
    if expansion.is_none() && !modifies {
        return Err(RunError::Refused("CSI driver neither supports resize nor modify".into()));
    }
    let stop = ports.stop.child_token();
    let expand = async {
        match expansion {
            Some(expansion) => {
                let settings = (sidecar.clone(), flags.clone(), expansion);
                ended(&stop, role::run::<Resizer>(ports.until(stop.clone()), settings).await)
            }
            None => Ok(()),
        }
    };
    let modify = async {
        match modifies {
            true => {
                let settings = (sidecar.clone(), flags.clone());
                ended(&stop, role::run::<Modifier>(ports.until(stop.clone()), settings).await)
            }
            false => Ok(()),
        }
    };
    let (expanded, modified) = tokio::join!(expand, modify);
    expanded.and(modified)
}

/// One that fails ends the other, which finishes what it has in flight.
fn ended(stop: &CancellationToken, end: Result<(), RunError>) -> Result<(), RunError> {
    stop.cancel();
    end
}

/// Whether the API server has VolumeAttributesClasses; older ones do not.
async fn served(ports: &Ports) -> Result<bool, RunError> {
    let classes: Api<VolumeAttributesClass> = Api::all(ports.client.clone());
    let one = ListParams::default().limit(1);
    loop {
        match classes.list(&one).await {
            Ok(_) => return Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                tracing::info!(role = Modifier::NAME, "the API server has no VolumeAttributesClasses");
                return Ok(false);
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let text = format!(
                    "list VolumeAttributesClasses: {}; grant it, or switch the feature gate off",
                    status.message
                );
                return Err(RunError::Refused(text));
            }
            Err(error) => tracing::debug!(%error, "ask for VolumeAttributesClasses again"),
        }
        tokio::select! {
            biased;
            () = ports.stop.cancelled() => return Ok(false),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
