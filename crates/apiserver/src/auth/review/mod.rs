//! Questions about who somebody is and what they may do. They are posted, answered and forgotten.

mod access;
mod kinds;
mod tokens;

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::user::User;
use crate::core::Core;
use crate::registry::KindInfo;
use crate::status::Status;
use crate::verbs::{Call, Outcome, Reply};

pub use kinds::register;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Nothing of these groups is stored.
pub fn applies(info: &KindInfo) -> bool {
    matches!(&*info.group, AUTHENTICATION | AUTHORIZATION)
}

pub fn run(core: &Arc<Core>, method: &Method, call: &Call) -> Result<Reply, Status> {
    if call.name.is_some() || call.info().namespaced != call.namespace.is_some() {
        return Err(Status::no_such_resource());
    }
    if *method != Method::POST {
        return Err(Status::method_not_allowed());
    }
    let (mut review, warnings) = crate::verbs::decode_body(call)?;
    crate::verbs::place(&mut review, call.info().namespaced, call.namespace.as_deref().unwrap_or_default())?;
    let answer = match &*call.info().kind {
        "TokenReview" => tokens::review(core, review)?,
        "SelfSubjectReview" => tokens::whoami(&call.user, core.clock.now()),
        "SelfSubjectRulesReview" => access::rules(core, &call.user, &review)?,
        _ => access::review(core, &call.user, review)?,
    };
    let outcome = Outcome::Other { code: StatusCode::CREATED, json: answer.to_string().into() };
    Ok(Reply { outcome, warnings })
}

/// Somebody, as reviews show them.
pub fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

#[cfg(test)]
mod tests;
