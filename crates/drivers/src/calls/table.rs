//! Every method of CSI: its full name, the name of its span, and whether it answers with a stream.

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::id::Key;

/// How a method answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Single,
    Stream,
}

pub struct Rpc {
    /// As gRPC spells it: `/csi.v1.Controller/CreateVolume`.
    pub method: &'static str,
    pub answer: Answer,
    /// Says what the call is about as soon as somebody has read that from the request. Never more than ids:
    /// requests carry secrets.
    pub span: Span,
}

macro_rules! rpcs {
    ($($service:ident $answer:ident { $($method:ident)+ })+) => {
        impl Rpc {
            pub fn find(path: &str) -> Option<Self> {
                match path {
                    $($(concat!("/csi.v1.", stringify!($service), "/", stringify!($method)) => Some(Self {
                        method: concat!("/csi.v1.", stringify!($service), "/", stringify!($method)),
                        answer: Answer::$answer,
                        span: info_span!(
                            concat!("csi.", stringify!($method)),
                            volume = Empty,
                            snapshot = Empty,
                            "group snapshot" = Empty,
                        ),
                    }),)+)+
                    _ => None,
                }
            }
        }

        #[cfg(test)]
        const METHODS: &[&str] =
            &[$($(concat!("/csi.v1.", stringify!($service), "/", stringify!($method)),)+)+];
    };
}

rpcs! {
    Identity Single { GetPluginInfo GetPluginCapabilities Probe }
    Controller Single {
        CreateVolume DeleteVolume ControllerPublishVolume ControllerUnpublishVolume
        ValidateVolumeCapabilities ListVolumes ControllerListVolumeHealth ControllerGetVolumeHealth
        GetCapacity ControllerGetCapabilities
        CreateSnapshot DeleteSnapshot ListSnapshots GetSnapshot
        ControllerExpandVolume ControllerGetVolume ControllerModifyVolume
    }
    GroupController Single {
        GroupControllerGetCapabilities
        CreateVolumeGroupSnapshot DeleteVolumeGroupSnapshot GetVolumeGroupSnapshot
    }
    SnapshotMetadata Stream { GetMetadataAllocated GetMetadataDelta }
    Node Single {
        NodeStageVolume NodeUnstageVolume NodePublishVolume NodeUnpublishVolume
        NodeGetVolumeStats NodeGetVolumeHealth NodeGetStorageHealth NodeExpandVolume
        NodeGetCapabilities NodeGetInfo
    }
}

/// Notes in the span of the running call what it is about.
pub fn about(key: &Key) {
    Span::current().record(key.noun(), key.id());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a method added to the proto cannot go uncounted.
    #[test]
    fn the_table_is_the_proto() {
        let mut declared = Vec::new();
        let mut service = "";
        for line in include_str!("../../../proto/proto/csi.proto").lines() {
            let words: Vec<&str> = line.split([' ', '(', ')']).filter(|word| !word.is_empty()).collect();
            match words.as_slice() {
                ["service", name, ..] => service = name,
                ["rpc", method, ..] => declared.push((service, *method, line)),
                _ => {}
            }
        }
        assert!(declared.len() > 30, "the proto was not understood: {declared:?}");
        for (service, method, line) in &declared {
            let path = format!("/csi.v1.{service}/{method}");
            let rpc = Rpc::find(&path).unwrap_or_else(|| panic!("{path} is not in the table"));
            assert_eq!(rpc.method, path);
            let expected = if line.contains("(stream ") { Answer::Stream } else { Answer::Single };
            assert_eq!(rpc.answer, expected, "{path}");
        }
        assert_eq!(METHODS.len(), declared.len(), "the table has methods that the proto has not");
        assert!(Rpc::find("/csi.v1.Controller/Nonsense").is_none());
    }
}
