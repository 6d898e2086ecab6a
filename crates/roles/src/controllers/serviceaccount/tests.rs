//! Decision table, and the account itself.

use std::sync::Arc;

use bowline_api::{Meta, Namespace};
use bowline_machinery::Step::{Do, Done};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::act::account;
use super::decide;
use super::model::{Action, Observed};

fn seen(deleting: bool, account: bool) -> Observed {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("n".into());
    namespace.metadata.deletion_timestamp = deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
    Observed { namespace: Arc::new(namespace), account }
}

#[test]
fn decisions() {
    let table = [
        ("a new namespace", seen(false, false), Do(Action::Create)),
        ("one that has it", seen(false, true), Done),
        ("one that goes", seen(true, false), Done),
        ("one that goes with it", seen(true, true), Done),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
    let made = account("n");
    assert_eq!((made.namespace(), made.name()), ("n", "default"));
}
