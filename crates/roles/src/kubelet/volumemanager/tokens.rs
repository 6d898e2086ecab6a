//! What a driver is told again and again: tokens of the pod's account (`tokenRequests`), and when it is told
//! (`requiresRepublish`).

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_api::{CSIDriver, Meta, Pod, ServiceAccount};
use bowline_machinery::effect::EffectError;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use serde_json::{Value, json};

use super::model::{Observed, Presence, Target};
use super::role::Manager;
use crate::kubelet::localvolumes::Token;

/// Upstream's pause between two looks at a pod, which it stretches by up to a half.
const REPUBLISH: Duration = Duration::from_secs(60);

/// A token with the time until which the API server accepts it, in its own words.
#[derive(Debug, Clone)]
pub struct ServiceAccountToken {
    token: Token,
    expiration: Value,
}

impl Manager {
    /// The tokens that a driver asks for, as it gets them: a JSON object by audience. None if it asks for none. A token
    /// that is good for a while longer is used again.
    pub(super) async fn service_account_tokens(
        &self,
        seen: &Observed,
        target: &Target,
        pod: &Pod,
    ) -> Result<Option<String>, EffectError> {
        let wanted = seen.csi_driver.as_ref().and_then(|driver| driver.spec.token_requests.as_ref());
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else { return Ok(None) };
        let now = self.ports.host.uptime.uptime();
        let known =
            self.memory.get(&seen.volume).and_then(|v| v.mounts.get(target).map(|m| m.tokens.clone()));
        let known = known.unwrap_or_default();
        let mut tokens: BTreeMap<String, ServiceAccountToken> = BTreeMap::new();
        for request in wanted {
            let good = known.get(&request.audience).filter(|known| known.token.renew_at > now);
            let token = match good {
                Some(token) => token.clone(),
                None => self.request_token(pod, &request.audience, request.expiration_seconds, now).await?,
            };
            tokens.insert(request.audience.clone(), token);
        }
        let shown: BTreeMap<&String, Value> =
            tokens.iter().map(|(audience, t)| (audience, t.shown())).collect();
        let text =
            serde_json::to_string(&shown).map_err(|e| EffectError::refused(format!("encode tokens: {e}")))?;
        self.memory.update(&seen.volume, |v| {
            if let Some(mount) = v.mounts.get_mut(target) {
                mount.tokens = tokens;
            }
        });
        Ok(Some(text))
    }

    /// A token that ends with the pod. An answer that is lost costs a token that is never used.
    async fn request_token(
        &self,
        pod: &Pod,
        audience: &str,
        seconds: Option<i64>,
        now: Duration,
    ) -> Result<ServiceAccountToken, EffectError> {
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        let spec = TokenRequestSpec {
            audiences: (!audience.is_empty()).then(|| vec![audience.to_owned()]),
            expiration_seconds: seconds,
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Pod".into()),
                name: Some(pod.name().to_owned()),
                uid: Some(pod.uid().to_owned()),
            }),
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let account = account.unwrap_or_default();
        let asked =
            self.effects.ask::<ServiceAccount, TokenRequest>("token", pod.namespace(), account, &request);
        // Nothing has changed on this machine: upstream calls it transient.
        let failed = |why: String| {
            EffectError::unknown(format!(
                "kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes: {why}"
            ))
        };
        let answer = asked.await.map_err(|error| failed(error.message))?;
        let seconds = answer.spec.and_then(|spec| spec.expiration_seconds).or(seconds).unwrap_or_default();
        let status = answer.status.unwrap_or_default();
        let text = status.token.ok_or_else(|| failed("the answer holds none".into()))?;
        let life = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let expiration = json!(status.expiration_timestamp);
        Ok(ServiceAccountToken { token: Token::new(text, now, life), expiration })
    }

    /// A driver that asks for it is told of the pod again after upstream's pause.
    pub(super) fn time_republication(&self, seen: &Observed, target: &Target) {
        let wanted = republishes(seen.csi_driver.as_deref());
        let at = wanted.then(|| self.ports.host.uptime.uptime().saturating_add(self.pause()));
        self.memory.set_republish(&seen.volume, target, at);
    }

    /// For all volumes of a driver whose CSIDriver has changed.
    pub(super) fn time_republications(&self, driver: &str) {
        let wanted = republishes(self.csi_drivers.named(driver).as_deref());
        for volume in self.memory.of_driver(driver) {
            let Some(state) = self.memory.get(&volume) else { continue };
            for (target, mount) in state.mounts.iter().filter(|(_, m)| m.presence == Presence::Present) {
                if wanted != mount.republish_at.is_some() {
                    let at = wanted.then(|| self.ports.host.uptime.uptime().saturating_add(self.pause()));
                    self.memory.set_republish(&volume, target, at);
                }
            }
        }
    }

    fn pause(&self) -> Duration {
        let stretch = self.ports.host.random.next_u64() % (REPUBLISH.as_millis() as u64 / 2);
        REPUBLISH + Duration::from_millis(stretch)
    }
}

impl ServiceAccountToken {
    fn shown(&self) -> Value {
        json!({"token": self.token.text, "expirationTimestamp": self.expiration})
    }
}

fn republishes(driver: Option<&CSIDriver>) -> bool {
    driver.and_then(|driver| driver.spec.requires_republish).unwrap_or(false)
}
