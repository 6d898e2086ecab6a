//! What is stored before CreateVolume is sent, and where: a Lease beside the provisioner's own (ADR 9).
//!
//! A claim's owner may write anything on the claim, so that a request read back from there could name another tenant's
//! volume or any secret. Leases in the provisioner's namespace are its own.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bowline_api::{Lease, Meta, PersistentVolumeClaim, StorageClass, keys};
use bowline_proto::csi::v1::CreateVolumeRequest;
use bowline_proto::csi::v1::volume_content_source::Type;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prost::Message;
use serde::{Deserialize, Serialize};

use super::decide::{source, volume_name};
use super::model::{Creation, Intent, Naming, Secrets, Settings, Stored};
use super::node::managed_by;

/// The API server takes 256 KiB of annotations.
const BYTES_MAX: usize = 250 << 10;

/// Longest request that is read back: gRPC servers take no longer message.
const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// An intent as text. The request is CSI's own encoding, so that a repeat is the same to the last byte. One that is too
/// large, since it names each of thousands of nodes, is compressed.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Format {
    #[serde(default)]
    naming: Option<Naming>,
    claim: PersistentVolumeClaim,
    class: StorageClass,
    request: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    compressed: bool,
    secrets: Secrets,
    fs_type: String,
}

/// Selects the intents of a driver.
pub fn selector(settings: &Settings) -> String {
    let all = format!("{}={}", keys::CREATE_VOLUME, settings.driver);
    match &settings.node {
        None => all,
        Some(own) => format!("{all},{}={}", keys::CAPACITY_MANAGED_BY, managed_by(Some(&own.name))),
    }
}

/// One name for each claim, so that no two processes store two intents for one volume.
pub fn name(settings: &Settings, claim_uid: &str) -> String {
    format!("create-volume-{}-{claim_uid}", settings.driver.to_lowercase())
}

/// The object that keeps an intent. It can be too large, although compressed.
pub fn lease(settings: &Settings, namespace: &str, intent: &Intent) -> Result<Lease, String> {
    let mut text = encode(&settings.naming, intent, false)?;
    if text.len() > BYTES_MAX {
        text = encode(&settings.naming, intent, true)?;
    }
    if text.len() > BYTES_MAX {
        return Err(format!("it has {} bytes, and {BYTES_MAX} can be stored", text.len()));
    }
    let mut labels = BTreeMap::from([(keys::CREATE_VOLUME.to_owned(), settings.driver.clone())]);
    if let Some(own) = &settings.node {
        labels.insert(keys::CAPACITY_MANAGED_BY.to_owned(), managed_by(Some(&own.name)));
    }
    let metadata = ObjectMeta {
        name: Some(name(settings, intent.claim.uid())),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels),
        annotations: Some([(keys::CREATE_VOLUME.to_owned(), text)].into()),
        ..ObjectMeta::default()
    };
    let spec = LeaseSpec { holder_identity: Some(settings.identity.clone()), ..LeaseSpec::default() };
    Ok(Lease { metadata, spec: Some(spec) })
}

/// Whether this process stored it.
pub fn is_own(settings: &Settings, lease: &Lease) -> bool {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref()) == Some(&settings.identity)
}

pub fn stored(settings: &Settings, lease: Lease) -> Result<Stored, String> {
    // The driver of another node cannot finish it.
    let writer = settings.node.as_ref().map(|own| managed_by(Some(&own.name)));
    if lease.label(keys::CAPACITY_MANAGED_BY) != writer.as_deref() {
        return Err("it belongs to the provisioner of another node, or of all of them".to_owned());
    }
    let text = lease.annotation(keys::CREATE_VOLUME).ok_or("it has no annotation")?;
    let (naming, intent) = decode(text)?;
    // What an older version stored does not say: then the flags are the same as then.
    check(settings, naming.as_ref().unwrap_or(&settings.naming), lease.name(), &intent)?;
    Ok(Stored { intent: Arc::new(intent), lease: Some(Arc::new(lease)) })
}

/// Only what this program would have stored for this claim is sent.
fn check(settings: &Settings, naming: &Naming, lease: &str, intent: &Intent) -> Result<(), String> {
    let request = &intent.creation.request;
    match () {
        () if lease != name(settings, intent.claim.uid()) => Err("its name is not that of its claim".into()),
        () if intent.class.provisioner != settings.driver => {
            Err(format!("its class belongs to driver `{}`", intent.class.provisioner))
        }
        () if request.name != volume_name(naming, &intent.claim) => {
            Err(format!("its volume `{}` is not named after its claim", request.name))
        }
        () if copied_kind(request) != named_kind(&intent.claim)? => {
            Err("it copies something else than its claim names".into())
        }
        () => Ok(()),
    }
}

/// What kind of object a request copies from.
fn copied_kind(request: &CreateVolumeRequest) -> Option<&'static str> {
    request.volume_content_source.as_ref().map(|content| match content.r#type {
        Some(Type::Volume(_)) => source::CLAIM,
        Some(Type::Snapshot(_)) => source::SNAPSHOT,
        None => "",
    })
}

fn named_kind(claim: &PersistentVolumeClaim) -> Result<Option<&str>, String> {
    let reference = source::reference(claim).map_err(|why| why.to_string())?;
    Ok(reference.map(|reference| reference.kind))
}

fn encode(naming: &Naming, intent: &Intent, compressed: bool) -> Result<String, String> {
    let Intent { claim, class, creation } = intent;
    // SEC-1: secrets are read for each call and never stored.
    let request = CreateVolumeRequest { secrets: Default::default(), ..creation.request.clone() };
    let request = request.encode_to_vec();
    let request = if compressed { compress(&request).map_err(|error| error.to_string())? } else { request };
    let format = Format {
        naming: Some(naming.clone()),
        claim: claim.as_ref().clone(),
        class: class.as_ref().clone(),
        request: STANDARD.encode(request),
        compressed,
        secrets: creation.secrets.clone(),
        fs_type: creation.fs_type.clone(),
    };
    serde_json::to_string(&format).map_err(|error| error.to_string())
}

fn decode(text: &str) -> Result<(Option<Naming>, Intent), String> {
    let format: Format = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let request = STANDARD.decode(format.request).map_err(|error| error.to_string())?;
    let request = if format.compressed { inflate(&request)? } else { request };
    let request = CreateVolumeRequest::decode(request.as_slice()).map_err(|error| error.to_string())?;
    let creation = Creation { request, secrets: format.secrets, fs_type: format.fs_type };
    let intent = Intent { claim: Arc::new(format.claim), class: Arc::new(format.class), creation };
    Ok((format.naming, intent))
}

fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut request = Vec::new();
    let mut inflated = GzDecoder::new(bytes).take(REQUEST_BYTES_MAX + 1);
    inflated.read_to_end(&mut request).map_err(|error| format!("inflate the request: {error}"))?;
    if request.len() as u64 > REQUEST_BYTES_MAX {
        return Err(format!("its request has more than {REQUEST_BYTES_MAX} bytes"));
    }
    Ok(request)
}
