//! `kubectl --as`: acting as somebody else, for those who may.
//!
//! Upstream 1.36 knows several ways. In the constrained ones a caller needs the right to be somebody and the right to do
//! this one thing as somebody (`impersonate-on:<way>:<verb>`); in the old one, `impersonate` alone is enough. They are
//! tried in upstream's order; if all fail, the first refusal is the answer.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::attributes::{Attributes, ResourceAttributes};
use super::authorize::Authorizer;
use super::user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, NODES, UNAUTHENTICATED, User, account_groups, account_of, node_of,
};
use crate::http::query::decoded;
use crate::status::Status;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// With this many groups, or extra values, upstream asks first whether all are allowed.
const MANY: usize = 4;

/// Ways of being somebody else, in the order in which they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A service account as the node that its pod runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    /// The old way: one right for each thing, and then anything may be done.
    Legacy,
}

const WAYS: [Way; 5] =
    [Way::AssociatedNode, Way::ArbitraryNode, Way::ServiceAccount, Way::UserInfo, Way::Legacy];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> String {
        if self == Self::Legacy { "impersonate".into() } else { format!("impersonate:{}", self.name()) }
    }

    /// The group in which users and groups are asked for.
    fn group(self) -> &'static str {
        if self == Self::Legacy { "" } else { AUTHENTICATION }
    }

    fn applies(self, wanted: &User, caller: &User) -> bool {
        let name_only = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node_of(&wanted.name), account_of(&wanted.name));
        match self {
            Self::AssociatedNode => {
                let own = caller.extra.get(bowline_api::keys::CREDENTIAL_NODE_NAME).map(Vec::as_slice);
                let own = own.filter(|_| account_of(&caller.name).is_some());
                name_only && node.is_some_and(|node| own.is_some_and(|own| own == [node]))
            }
            Self::ArbitraryNode => name_only && node.is_some(),
            Self::ServiceAccount => name_only && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

/// The user that the headers ask for, if any, once the caller is known to be allowed that.
pub fn impersonated(
    authorizer: &Authorizer,
    caller: &User,
    headers: &HeaderMap,
    asked: impl FnOnce() -> Attributes,
) -> Result<Option<User>, Status> {
    let Some(wanted) = wanted(headers)? else { return Ok(None) };
    let asked = asked();
    let mut refusal = None;
    for way in WAYS.into_iter().filter(|way| way.applies(&wanted, caller)) {
        match (Check { authorizer, caller, way }).become_user(&wanted, &asked) {
            Ok(user) => return Ok(Some(user)),
            Err(status) => refusal = refusal.or(Some(status)),
        }
    }
    Err(refusal.unwrap_or_else(|| asked.forbidden(caller, "")))
}

/// What the headers say, unchecked.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let one = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let groups = headers.get_all(GROUP).iter().map(text).collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            extra.entry(decoded(key)).or_default().push(text(value));
        }
    }
    let wanted = User { name: one(USER), uid: one(UID), groups, extra };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == User::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", in_go(&wanted))))
}

/// Upstream prints what it read as Go would.
fn in_go(user: &User) -> String {
    let strings = |all: &[String]| {
        let quoted: Vec<String> = all.iter().map(|text| format!("{text:?}")).collect();
        if all.is_empty() { "[]string(nil)".into() } else { format!("[]string{{{}}}", quoted.join(", ")) }
    };
    let extra: Vec<String> =
        user.extra.iter().map(|(key, all)| format!("{key:?}:{}", strings(all))).collect();
    let extra = match extra.len() {
        0 => "map[string][]string(nil)".to_owned(),
        _ => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    let (uid, groups) = (&user.uid, strings(&user.groups));
    format!("&user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:{groups}, Extra:{extra}}}")
}

struct Check<'a> {
    authorizer: &'a Authorizer,
    caller: &'a User,
    way: Way,
}

impl Check<'_> {
    fn become_user(&self, wanted: &User, asked: &Attributes) -> Result<User, Status> {
        if self.way != Way::Legacy {
            let verb = format!("impersonate-on:{}:{}", self.way.name(), asked.verb());
            self.allowed(&asked.clone().with_verb(verb))?;
        }
        let mut user = wanted.clone();
        self.name(&mut user)?;
        if !wanted.uid.is_empty() {
            self.thing(AUTHENTICATION, "uids", "", &wanted.uid)?;
        }
        self.groups(&wanted.groups)?;
        self.extra(&wanted.extra)?;
        let known = if user.name == ANONYMOUS {
            UNAUTHENTICATED
        } else if user.is_in(UNAUTHENTICATED) {
            return Ok(user);
        } else {
            AUTHENTICATED
        };
        if !user.is_in(known) {
            user.groups.push(known.into());
        }
        Ok(user)
    }

    /// The groups of nodes and service accounts follow from their names.
    fn name(&self, user: &mut User) -> Result<(), Status> {
        let mut asked = self.attributes(self.way.group(), "users", "", &user.name);
        if let Some(node) = node_of(&user.name).filter(|_| self.way != Way::Legacy) {
            let any = self.way == Way::AssociatedNode;
            (asked.resource, asked.name) = ("nodes".into(), if any { "*" } else { node }.into());
            user.groups = vec![NODES.into()];
        }
        if let Some((namespace, name)) = account_of(&user.name) {
            (asked.resource, asked.namespace, asked.name) =
                ("serviceaccounts".into(), namespace.into(), name.into());
            if user.groups.is_empty() {
                user.groups = account_groups(namespace);
            }
        }
        self.allowed(&Attributes::Resource(asked))
    }

    fn groups(&self, groups: &[String]) -> Result<(), Status> {
        let refuse = |name: &str, why: &str| {
            let asked = self.attributes(self.way.group(), "groups", "", name);
            Err(Attributes::Resource(asked).forbidden(self.caller, why))
        };
        if self.way != Way::Legacy {
            if groups.iter().any(String::is_empty) {
                return refuse("", "impersonating the empty string group is not allowed");
            }
            if groups.iter().any(|group| group == MASTERS) {
                return refuse(MASTERS, "impersonating the system:masters group is not allowed");
            }
            if groups.len() >= MANY && self.thing(self.way.group(), "groups", "", "*").is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.thing(self.way.group(), "groups", "", group))
    }

    fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        if self.way != Way::Legacy {
            if let Some(why) = extra.iter().find_map(|(key, values)| extra_error(key, values)) {
                let asked = self.attributes(AUTHENTICATION, "userextras", "", "");
                return Err(Attributes::Resource(asked).forbidden(self.caller, why));
            }
            let many = extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && self.thing(AUTHENTICATION, "userextras", "*", "*").is_ok() {
                return Ok(());
            }
        }
        let all = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        all.into_iter().try_for_each(|(key, value)| self.thing(AUTHENTICATION, "userextras", key, value))
    }

    fn thing(&self, group: &str, resource: &str, subresource: &str, name: &str) -> Result<(), Status> {
        self.allowed(&Attributes::Resource(self.attributes(group, resource, subresource, name)))
    }

    fn attributes(&self, group: &str, resource: &str, subresource: &str, name: &str) -> ResourceAttributes {
        ResourceAttributes {
            verb: self.way.verb(),
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..ResourceAttributes::default()
        }
    }

    fn allowed(&self, asked: &Attributes) -> Result<(), Status> {
        let decision = self.authorizer.decide(self.caller, asked);
        if decision.allowed { Ok(()) } else { Err(asked.forbidden(self.caller, &decision.reason)) }
    }
}

/// Keys of extra values are paths below a domain.
fn extra_error(key: &str, values: &[String]) -> Option<&'static str> {
    let prefixed = key.split_once('/').is_some_and(|(domain, path)| {
        bowline_api::name::subdomain_errors(domain).is_empty() && !path.is_empty()
    });
    if key.is_empty() {
        Some("impersonating the empty string key in extra is not allowed")
    } else if !prefixed {
        Some("impersonating an invalid key in extra is not allowed")
    } else if key.chars().any(char::is_uppercase) {
        Some("impersonating a non-lowercase key in extra is not allowed")
    } else if values.iter().any(String::is_empty) {
        Some("impersonating the empty string value in extra is not allowed")
    } else {
        None
    }
}
