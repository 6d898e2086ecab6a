//! What a service-account token says, and whether it still holds. Plain functions.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::auth::user::User;
use bowline_api::keys;

/// Clocks may disagree by this much; what was deleted less long ago still counts as there.
const LEEWAY_SECONDS: i64 = 60;

/// In upstream's order, which is that of the alphabet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Claims {
    #[serde(deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    pub exp: i64,
    pub iat: i64,
    pub iss: String,
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Kubernetes,
    pub nbf: i64,
    pub sub: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Kubernetes {
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// An object by name, and which one of that name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

fn one_or_many<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Audience::deserialize(input)? {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
    })
}

/// What is known of an object that a token depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub uid: String,
    pub deleted: Option<Timestamp>,
}

/// Where the objects are.
pub trait Objects {
    /// `namespace` is empty for nodes.
    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Found>;
}

impl Claims {
    /// Why the token does not hold now; upstream's words. Its signature, issuer and audience were looked at before.
    pub fn refusal(&self, objects: &dyn Objects, now: Timestamp) -> Option<String> {
        let second = now.as_second();
        if second > self.exp.saturating_add(LEEWAY_SECONDS) {
            return Some("service account token has expired".into());
        }
        if second.saturating_add(LEEWAY_SECONDS) < self.nbf {
            return Some("service account token is not valid yet".into());
        }
        if second.saturating_add(LEEWAY_SECONDS) < self.iat {
            return Some("service account token is issued in the future".into());
        }
        let gone = |found: &Found| {
            found.deleted.is_some_and(|at| at.as_second() < second.saturating_sub(LEEWAY_SECONDS))
        };
        let Kubernetes { namespace, serviceaccount: account, pod, secret, node, .. } = &self.kubernetes;
        let Some(found) = objects.find("serviceaccounts", namespace, &account.name) else {
            return Some(format!("serviceaccounts {:?} not found", account.name));
        };
        if found.uid != account.uid {
            let (own, claimed) = (&found.uid, &account.uid);
            return Some(format!("service account UID ({own}) does not match claim ({claimed})"));
        }
        if gone(&found) {
            return Some(format!("service account {namespace}/{} has been deleted", account.name));
        }
        // A pod's node is only told of, not looked at.
        let node = node.as_ref().filter(|_| pod.is_none());
        let bound = [
            ("secret", namespace.as_str(), secret.as_ref()),
            ("pod", namespace, pod.as_ref()),
            ("node", "", node),
        ];
        let bound = bound.into_iter().filter_map(|(kind, within, named)| Some((kind, within, named?)));
        for (kind, within, Reference { name, uid }) in bound {
            match objects.find(&format!("{kind}s"), within, name) {
                Some(found) if found.uid != *uid => {
                    let own = found.uid;
                    return Some(format!(
                        "{kind} UID ({own}) does not match service account {kind} ref claim ({uid})"
                    ));
                }
                Some(found) if !gone(&found) => {}
                _ => return Some("service account token has been invalidated".into()),
            }
        }
        None
    }

    pub fn user(&self) -> User {
        let Kubernetes { namespace, serviceaccount: account, pod, node, .. } = &self.kubernetes;
        let mut user = User { uid: account.uid.clone(), ..User::service_account(namespace, &account.name) };
        let mut extra = |key: &str, value: String| user.extra.insert(key.into(), vec![value]);
        if !self.jti.is_empty() {
            extra(keys::CREDENTIAL_ID, format!("JTI={}", self.jti));
        }
        if let Some(pod) = pod {
            extra(keys::CREDENTIAL_POD_NAME, pod.name.clone());
            extra(keys::CREDENTIAL_POD_UID, pod.uid.clone());
        }
        if let Some(node) = node {
            extra(keys::CREDENTIAL_NODE_NAME, node.name.clone());
            if !node.uid.is_empty() {
                extra(keys::CREDENTIAL_NODE_UID, node.uid.clone());
            }
        }
        user.authenticated()
    }
}
