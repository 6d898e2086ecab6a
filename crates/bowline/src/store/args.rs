//! Flags about where objects are kept and for how long, in upstream's and etcd's words.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use bowline_apiserver::Store;
use bowline_apiserver::store::{self, EtcdSettings, Expiry, Options};
use bowline_host::Host;

use crate::apiserver::access::seconds;
use crate::installation::Installation;

const PREFIX: &str = "/registry";
const EVENT_TTL: Duration = Duration::from_secs(3600);
const COMPACTION: Duration = Duration::from_secs(300);
const QUOTA: u64 = 2 << 30;

/// Where etcd is and how to get in.
#[derive(clap::Args, Debug, Clone)]
pub struct EtcdArgs {
    /// Servers of an etcd that keeps the objects, separated by commas (https://host:2379); several API servers may
    /// share it
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub etcd_servers: Vec<String>,
    /// Before all keys in etcd. The form of keys and values is Bowline's own: kube-apiserver cannot read them
    #[arg(long, value_name = "PREFIX", default_value = PREFIX)]
    etcd_prefix: String,
    /// Authorities of etcd's certificates (PEM)
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,
    /// Certificate to show to etcd (PEM)
    #[arg(long, value_name = "FILE")]
    etcd_certfile: Option<PathBuf>,
    /// Key of that certificate (PEM)
    #[arg(long, value_name = "FILE")]
    etcd_keyfile: Option<PathBuf>,
}

#[derive(clap::Args, Debug, Clone)]
pub struct StoreArgs {
    #[command(flatten)]
    etcd: EtcdArgs,
    /// How often old revisions in etcd are thrown away, whichever server does it; 0 never
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    etcd_compaction_interval: Duration,
    /// How long events are kept after they were last written
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    event_ttl: Duration,
    /// Bytes that all objects in the data directory or in memory may take; 0 is no limit. etcd has a flag of its own
    #[arg(long, value_name = "BYTES", default_value_t = QUOTA)]
    quota_backend_bytes: u64,
}

impl Default for StoreArgs {
    fn default() -> Self {
        Self {
            etcd: EtcdArgs {
                etcd_servers: Vec::new(),
                etcd_prefix: PREFIX.into(),
                etcd_cafile: None,
                etcd_certfile: None,
                etcd_keyfile: None,
            },
            etcd_compaction_interval: COMPACTION,
            event_ttl: EVENT_TTL,
            quota_backend_bytes: QUOTA,
        }
    }
}

impl EtcdArgs {
    /// Nothing if objects are not kept there.
    pub fn settings(&self, compaction_interval: Duration) -> Option<EtcdSettings> {
        (!self.etcd_servers.is_empty()).then(|| EtcdSettings {
            servers: self.etcd_servers.clone(),
            prefix: self.etcd_prefix.clone(),
            ca_file: self.etcd_cafile.clone(),
            cert_file: self.etcd_certfile.clone(),
            key_file: self.etcd_keyfile.clone(),
            compaction_interval,
        })
    }
}

impl StoreArgs {
    /// Opens what the flags say: etcd, memory if no directory is given, or else the directory, which is part of
    /// the installation.
    pub async fn open(
        &self,
        dir: Option<&Path>,
        installation: &mut Installation,
        host: &Host,
    ) -> Result<Store> {
        let expiry = Expiry { ttl: self.event_ttl, clock: host.clock.clone() };
        let expiry = (!self.event_ttl.is_zero()).then_some(expiry);
        let options = Options { quota: self.quota_backend_bytes, expiry, ..Options::default() };
        if let Some(settings) = self.etcd.settings(self.etcd_compaction_interval) {
            return Ok(Store::open_etcd(settings, options, host.random.as_ref()).await?);
        }
        let store = match dir.map(Path::to_owned) {
            None => Store::memory_on(options),
            Some(dir) => {
                if installation.holds_store() && !store::is_marked(&dir) {
                    bail!(
                        "the store in `{}` is missing, although this data directory had one: put it back, or bring a backup back with `bowline store restore`, or begin with an empty one with `bowline store accept-loss`",
                        dir.display()
                    );
                }
                let store = tokio::task::spawn_blocking(move || Store::open_file_on(&dir, options)).await??;
                installation.note_store()?;
                store
            }
        };
        store.expire_in_background();
        Ok(store)
    }
}

/// Go's durations; here none is one, too.
fn duration(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        _ => u64::try_from(seconds(text)?).map(Duration::from_secs).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        store: StoreArgs,
    }

    fn parsed(flags: &[&str]) -> StoreArgs {
        Flags::try_parse_from(std::iter::once("x").chain(flags.iter().copied())).unwrap().store
    }

    #[test]
    fn no_flags_are_the_defaults() {
        assert_eq!(format!("{:?}", parsed(&[])), format!("{:?}", StoreArgs::default()));
        assert!(parsed(&[]).etcd.settings(COMPACTION).is_none());
    }

    #[test]
    fn flags_of_etcd() {
        let flags =
            ["--etcd-servers=https://a:1,https://b:1", "--etcd-prefix=/x", "--etcd-compaction-interval=0"];
        let args = parsed(&flags);
        let settings = args.etcd.settings(args.etcd_compaction_interval).unwrap();
        assert_eq!(settings.servers, ["https://a:1", "https://b:1"]);
        assert_eq!((settings.prefix.as_str(), settings.compaction_interval), ("/x", Duration::ZERO));
    }
}
