//! One effect per action.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_api::{Meta, keys};
use bowline_machinery::Object;
use bowline_machinery::csi::{self, Classes, Driver};
use bowline_machinery::effect::{EffectError, Part};
use bowline_proto::csi::v1::{NodeGetInfoRequest, NodeGetInfoResponse};
use bowline_proto::pluginregistration::registration_client::RegistrationClient;
use bowline_proto::pluginregistration::{InfoRequest, RegistrationStatus};
use serde_json::json;

use super::drivers::{Capabilities, Registered, TIMEOUT};
use super::model::{Action, Facts, Info, Key, LINGER, Observed, Plugin, Progress};
use super::role::Manager;
use super::version;

const GET_INFO_TIMEOUT: Duration = Duration::from_secs(1);
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

impl Manager {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match (action, seen) {
            (Action::DescribeNode { annotation, labels }, _) => {
                let Some(node) = self.node() else { return Ok(()) };
                let metadata = json!({
                    "resourceVersion": node.meta().resource_version,
                    "annotations": {keys::CSI_NODE_ID: annotation},
                    "labels": labels,
                });
                let patch = json!({"metadata": metadata});
                let written = self.effects.patch(Part::Main, &node, patch).await;
                self.fresh(&node, written).await
            }
            (Action::WriteCsiNode(csi_node), _) => {
                let written = self.effects.replace(Part::Main, csi_node.as_ref()).await;
                self.fresh(csi_node.as_ref(), written).await
            }
            (Action::Forget, Observed::Departed(seen)) => {
                self.memory.forget(&seen.driver);
                Ok(())
            }
            (action, Observed::Socket(seen)) => self.act_on_socket(action, &seen.path, seen.generation).await,
            (action, Observed::Departed(_)) => {
                Err(EffectError::refused(format!("{action:?} needs a socket")))
            }
        }
    }

    async fn act_on_socket(
        &self,
        action: Action,
        path: &Path,
        generation: Option<u64>,
    ) -> Result<(), EffectError> {
        match action {
            Action::Withdraw => {
                self.withdraw(path, LINGER);
                Ok(())
            }
            Action::GetInfo => {
                let info = self.get_info(path).await?;
                let plugin =
                    Plugin { generation: generation.unwrap_or(0), info, progress: Progress::Introduced };
                self.memory.know(path, plugin);
                Ok(())
            }
            Action::AskDriver => {
                let Some(plugin) = self.memory.plugin(path) else { return Ok(()) };
                let progress = match self.facts(&plugin.info).await {
                    Ok(facts) => Progress::Answered(facts),
                    Err(error) => Progress::Rejected(format!(
                        "RegisterPlugin error -- plugin registration failed with err: {error}"
                    )),
                };
                self.memory.advance(path, progress);
                Ok(())
            }
            Action::Refresh => {
                self.refresh(path).await;
                Ok(())
            }
            Action::Refuse(text) => {
                let told = self.notify(path, false, &text).await;
                self.withdraw(path, Duration::ZERO);
                // Refused is retried like any failure: until it works or the socket goes.
                told.and(Err(EffectError::refused(text)))
            }
            Action::Confirm(facts) => self.confirm(path, facts).await,
            Action::DescribeNode { .. } | Action::WriteCsiNode(_) | Action::Forget => Ok(()),
        }
    }

    /// Somebody else wrote in between: brings the newest copy into the cache, and the next step decides on that.
    async fn fresh<K: Object>(&self, object: &K, written: Result<K, EffectError>) -> Result<(), EffectError> {
        match written {
            Ok(_) => Ok(()),
            Err(error) if error.conflict() => {
                if let Some(live) = self.effects.get_live::<K>(object.namespace(), object.name()).await? {
                    self.ports.informers.of::<K>().note(live);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn get_info(&self, path: &Path) -> Result<Info, EffectError> {
        let client = RegistrationClient::new(Driver::at(&self.ports.host, path).channel());
        let send = |request| async move { client.clone().get_info(request).await };
        let what = format!("plugin {}", path.display());
        let info = csi::call(
            &self.effects,
            "GetInfo",
            &what,
            GET_INFO_TIMEOUT,
            Classes::Default,
            InfoRequest {},
            send,
        )
        .await?;
        let own = info.endpoint.is_empty();
        let endpoint = if own { path.to_owned() } else { PathBuf::from(info.endpoint) };
        Ok(Info { kind: info.r#type, name: info.name, endpoint, versions: info.supported_versions })
    }

    /// Only the number of volumes counts; as upstream, a driver that does not answer is asked again a period later.
    async fn refresh(&self, path: &Path) {
        let Some(Plugin { info, progress: Progress::Registered(facts), .. }) = self.memory.plugin(path)
        else {
            return;
        };
        let answer = self.node_info(&info).await;
        self.memory.set_asked(&info.name, Some(self.ports.host.uptime.uptime()));
        match answer {
            Ok(node) => {
                let facts = Facts { volumes_max: node.max_volumes_per_node, ..facts };
                self.memory.advance(path, Progress::Registered(facts));
            }
            Err(error) => {
                tracing::warn!(driver = info.name, %error, "cannot ask how many volumes can be attached");
            }
        }
    }

    async fn node_info(&self, info: &Info) -> Result<NodeGetInfoResponse, EffectError> {
        let driver = Driver::at(&self.ports.host, &info.endpoint);
        let what = format!("driver {}", info.name);
        let (timeout, classes) = (TIMEOUT, Classes::Default);
        let send = |request| async { driver.node().node_get_info(request).await };
        let request = NodeGetInfoRequest {};
        csi::call(&self.effects, "NodeGetInfo", &what, timeout, classes, request, send).await
    }

    async fn facts(&self, info: &Info) -> Result<Facts, EffectError> {
        let driver = Driver::at(&self.ports.host, &info.endpoint);
        let node = self.node_info(info).await?;
        self.memory.set_asked(&info.name, Some(self.ports.host.uptime.uptime()));
        let capabilities = Capabilities::ask(&self.effects, &driver, &info.name).await?;
        Ok(Facts {
            node_id: node.node_id,
            volumes_max: node.max_volumes_per_node,
            topology: node.accessible_topology.map(|t| t.segments.into_iter().collect()).unwrap_or_default(),
            capabilities,
        })
    }

    /// The driver can be called from here on; a plugin that does not hear of it is withdrawn again.
    async fn confirm(&self, path: &Path, facts: Facts) -> Result<(), EffectError> {
        let Some(Plugin { info, .. }) = self.memory.plugin(path) else { return Ok(()) };
        let version = version::highest(&info.versions).map_err(EffectError::refused)?;
        let connection = Driver::at(&self.ports.host, &info.endpoint);
        let (name, capabilities) = (info.name.clone(), facts.capabilities);
        self.drivers.insert(Registered { name, version, connection, capabilities, asked: None });
        match self.notify(path, true, "").await {
            Ok(()) => {
                tracing::info!(driver = info.name, "registered");
                self.memory.advance(path, Progress::Registered(facts));
                Ok(())
            }
            Err(error) => {
                self.withdraw(path, Duration::ZERO);
                Err(error)
            }
        }
    }

    async fn notify(&self, path: &Path, registered: bool, error: &str) -> Result<(), EffectError> {
        let client = RegistrationClient::new(Driver::at(&self.ports.host, path).channel());
        let send = |request| async move { client.clone().notify_registration_status(request).await };
        let what = format!("plugin {}", path.display());
        let status = RegistrationStatus { plugin_registered: registered, error: error.to_owned() };
        let name = "NotifyRegistrationStatus";
        csi::call(&self.effects, name, &what, NOTIFY_TIMEOUT, Classes::Default, status, send).await.map(drop)
    }

    /// Out of the table at once, unless another socket has taken the driver over; out of the API a little later.
    fn withdraw(&self, path: &Path, linger: Duration) {
        let Some(plugin) = self.memory.unknow(path) else { return };
        let driver = plugin.info.name;
        if self.memory.rival_versions(&driver, path).is_none() {
            self.drivers.remove(&driver);
            self.memory.depart(&driver, self.ports.host.uptime.uptime() + linger);
            self.queue.add(Key::Departed(driver));
        }
    }
}
