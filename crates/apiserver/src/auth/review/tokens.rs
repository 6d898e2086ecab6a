//! Whose token is this, and who am I.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::user_info;
use crate::auth::authenticate::TokenRefusal;
use crate::auth::user::User;
use crate::core::Core;
use crate::metadata;
use crate::status::Status;

pub fn review(core: &Core, mut review: Value) -> Result<Value, Status> {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = review["spec"]["audiences"].as_array().into_iter().flatten();
    let audiences: Vec<String> = audiences.filter_map(|text| text.as_str().map(str::to_owned)).collect();
    review["status"] = match core.access.review(token, &audiences, core.clock.now()) {
        Ok(accepted) => {
            let mut status = json!({"authenticated": true, "user": user_info(&accepted.user)});
            if !accepted.audiences.is_empty() {
                status["audiences"] = json!(accepted.audiences);
            }
            status
        }
        Err(refusal) => json!({"user": {}, "error": text(&refusal)}),
    };
    Ok(review)
}

fn text(refusal: &TokenRefusal) -> String {
    match refusal {
        TokenRefusal::Unknown => "invalid bearer token".into(),
        TokenRefusal::Invalid(why) => format!("[invalid bearer token, {why}]"),
    }
}

pub fn whoami(user: &User, now: Timestamp) -> Value {
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": metadata::timestamp(now)},
        "status": {"userInfo": user_info(user)},
    })
}
