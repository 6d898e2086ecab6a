//! Which admission plugins run: upstream's names, `--enable-admission-plugins` and `--disable-admission-plugins`.

use std::collections::BTreeSet;

pub const SERVICE_ACCOUNT: &str = "ServiceAccount";
pub const NODE_RESTRICTION: &str = "NodeRestriction";
pub const POD_SECURITY: &str = "PodSecurity";
pub const PRIORITY: &str = "Priority";
pub const TOLERATIONS: &str = "DefaultTolerationSeconds";
pub const STORAGE_CLASS: &str = "DefaultStorageClass";
pub const STORAGE_PROTECTION: &str = "StorageObjectInUseProtection";
pub const CLAIM_RESIZE: &str = "PersistentVolumeClaimResize";
pub const RUNTIME_CLASS: &str = "RuntimeClass";

/// Those that can be turned off, all of which are on.
const HERE: [&str; 9] = [
    SERVICE_ACCOUNT,
    NODE_RESTRICTION,
    POD_SECURITY,
    PRIORITY,
    TOLERATIONS,
    STORAGE_CLASS,
    STORAGE_PROTECTION,
    CLAIM_RESIZE,
    RUNTIME_CLASS,
];

/// Upstream's others. Turning one off changes nothing, and none can be turned on.
const NOT_HERE: [&str; 27] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NamespaceLifecycle",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "ResourceQuota",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// The choice of whoever starts the server; everything that is here runs by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plugins {
    off: BTreeSet<String>,
}

/// A plugin that cannot be turned on or off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("disable-admission-plugins plugin {0:?} is unknown")]
    UnknownOff(String),
    #[error("enable-admission-plugins plugin {0:?} is unknown")]
    UnknownOn(String),
    #[error("enable-admission-plugins plugin {0:?} is not part of this server: leave it out")]
    Missing(String),
    #[error("{0:?} in enable-admission-plugins and disable-admission-plugins overlapped")]
    Both(String),
}

impl Plugins {
    /// From what the two flags say.
    pub fn chosen(on: &[String], off: &[String]) -> Result<Self, PluginError> {
        for name in on {
            match name.as_str() {
                name if HERE.contains(&name) => {}
                name if NOT_HERE.contains(&name) => return Err(PluginError::Missing(name.into())),
                name => return Err(PluginError::UnknownOn(name.into())),
            }
            if off.contains(name) {
                return Err(PluginError::Both(name.clone()));
            }
        }
        let known = |name: &String| HERE.contains(&name.as_str()) || NOT_HERE.contains(&name.as_str());
        match off.iter().find(|name| !known(name)) {
            Some(name) => Err(PluginError::UnknownOff(name.clone())),
            None => Ok(Self { off: off.iter().cloned().collect() }),
        }
    }

    pub fn on(&self, name: &str) -> bool {
        !self.off.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_chosen_by_their_names() {
        let chosen = |on: &[&str], off: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            Plugins::chosen(&owned(on), &owned(off))
        };
        assert!(chosen(&[], &[]).unwrap().on(SERVICE_ACCOUNT));
        let without = chosen(&[NODE_RESTRICTION], &[SERVICE_ACCOUNT, "LimitRanger"]).unwrap();
        assert!(!without.on(SERVICE_ACCOUNT) && without.on(NODE_RESTRICTION));
        let table = [
            (chosen(&[], &["Nonsense"]), PluginError::UnknownOff("Nonsense".into())),
            (chosen(&["Nonsense"], &[]), PluginError::UnknownOn("Nonsense".into())),
            (chosen(&["ResourceQuota"], &[]), PluginError::Missing("ResourceQuota".into())),
            (chosen(&[PRIORITY], &[PRIORITY]), PluginError::Both(PRIORITY.into())),
        ];
        for (choice, error) in table {
            assert_eq!(choice, Err(error));
        }
    }
}
