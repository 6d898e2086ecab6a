//! ServiceAccount: a name to run as.

use bowline_api::{Meta, ServiceAccount};
use serde_json::Value;

use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;
use crate::registry::Subresource;

const COLUMNS: &[Column] = &[column::NAME, column::AGE];

pub struct ServiceAccountRules;

impl Rules for ServiceAccountRules {
    type Object = ServiceAccount;
    const NAMES: Names =
        Names { plural: "serviceaccounts", singular: "serviceaccount", short: &["sa"], categories: &[] };
    const NAMESPACED: bool = true;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource {
        name: "token",
        verbs: &["create"],
        group: "authentication.k8s.io",
        version: "v1",
        kind: "TokenRequest",
    }];
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;

    fn validate(_account: &ServiceAccount) -> Vec<Invalid> {
        Vec::new()
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(account: &ServiceAccount, now: jiff::Timestamp) -> Vec<Value> {
        vec![account.name().into(), age::age(&account.metadata, now).into()]
    }
}
