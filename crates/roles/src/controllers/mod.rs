//! The controllers of `kube-controller-manager`, under upstream's names.

pub mod attachdetach;
pub mod garbagecollector;
pub mod nodelifecycle;
pub mod persistentvolume;
pub mod pvcprotection;
pub mod pvprotection;
pub mod rootcacertpublisher;
pub mod serviceaccount;

use std::collections::BTreeSet;

use bowline_machinery::client::Subject;
use bowline_machinery::supervise::supervised;
use bowline_machinery::{Ports, Role, RunError, role};
use futures::future::BoxFuture;

use crate::rights::{self, Rights};

/// What the flags of the program say to controllers.
#[derive(Debug, Clone)]
pub struct Settings {
    pub binder: persistentvolume::Flags,
    pub attach_detach: attachdetach::Flags,
    /// The certificate of the API server's authority, PEM; without it none is published.
    pub root_ca: Option<String>,
}

type Running = BoxFuture<'static, Result<(), RunError>>;

/// A controller that can be enabled.
pub struct Controller {
    /// As `--controllers` has it.
    pub name: &'static str,
    /// Its name before v1.28, which is still accepted.
    pub alias: &'static str,
    /// The service account that upstream's controller acts as, in kube-system.
    pub account: &'static str,
    pub rights: Rights,
    /// What upstream's controller does and this one does not, for people; empty if there is nothing.
    pub lacks: &'static str,
    /// `None` when the settings leave it nothing to do.
    start: fn(&Identified, &Settings) -> Option<Running>,
}

/// Every controller that there is here.
pub const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "persistentvolume-binder-controller",
        alias: "persistentvolume-binder",
        account: "persistent-volume-binder",
        rights: rights::BINDER,
        lacks: "",
        start: |given, settings| Some(run::<persistentvolume::Binder>(given, settings.binder.clone())),
    },
    Controller {
        name: "persistentvolume-attach-detach-controller",
        alias: "attachdetach",
        account: "attachdetach-controller",
        rights: rights::ATTACH_DETACH,
        lacks: "",
        start: |given, settings| Some(run::<attachdetach::Controller>(given, settings.attach_detach.clone())),
    },
    Controller {
        name: "persistentvolume-protection-controller",
        alias: "pv-protection",
        account: "pv-protection-controller",
        rights: rights::PV_PROTECTION,
        lacks: "",
        start: |given, _| Some(run::<pvprotection::Protection>(given, ())),
    },
    Controller {
        name: "persistentvolumeclaim-protection-controller",
        alias: "pvc-protection",
        account: "pvc-protection-controller",
        rights: rights::PVC_PROTECTION,
        lacks: "",
        start: |given, _| Some(run::<pvcprotection::Protection>(given, ())),
    },
    Controller {
        name: "garbage-collector-controller",
        alias: "garbagecollector",
        account: "generic-garbage-collector",
        rights: rights::GARBAGE_COLLECTOR,
        lacks: "",
        start: |given, _| Some(run::<garbagecollector::Collector>(given, ())),
    },
    Controller {
        name: "node-lifecycle-controller",
        alias: "nodelifecycle",
        account: "node-controller",
        rights: rights::NODE_LIFECYCLE,
        lacks: nodelifecycle::LACKS,
        start: |given, _| Some(run::<nodelifecycle::Lifecycle>(given, ())),
    },
    Controller {
        name: "serviceaccount-controller",
        alias: "serviceaccount",
        account: "service-account-controller",
        rights: rights::SERVICE_ACCOUNT,
        lacks: "",
        start: |given, _| Some(run::<serviceaccount::Accounts>(given, ())),
    },
    Controller {
        name: "root-ca-certificate-publisher-controller",
        alias: "root-ca-cert-publisher",
        account: "root-ca-cert-publisher",
        rights: rights::ROOT_CA_PUBLISHER,
        lacks: "",
        start: |given, settings| {
            settings.root_ca.clone().map(|root| run::<rootcacertpublisher::Publisher>(given, root))
        },
    },
];

/// Controllers of upstream's program that are not here: they may be disabled, and cannot be enabled.
const ELSEWHERE: &str = include_str!("elsewhere.txt");

/// What a controller is given, and whose rights it has.
struct Identified<'a> {
    ports: &'a Ports,
    account: &'static str,
}

fn run<R: Role<Settings: Clone + Sync>>(given: &Identified<'_>, settings: R::Settings) -> Running {
    let (with, subject) = (given.ports.clone(), Subject::ServiceAccount(given.account));
    Box::pin(supervised(R::NAME, given.ports, move || {
        let (ports, settings) = (with.acting_as(&subject), settings.clone());
        async move { role::run::<R>(ports?, settings).await }
    }))
}

impl Controller {
    /// Runs until the process stops or loses its lease.
    pub fn start(&self, ports: &Ports, settings: &Settings) -> Option<Running> {
        (self.start)(&Identified { ports, account: self.account }, settings)
    }
}

/// What `--controllers` enables: `*` all, `name` one, `-name` not this one; what is said first about a controller counts.
pub fn enabled(list: &[String]) -> Result<Vec<&'static Controller>, String> {
    let elsewhere: BTreeSet<&str> = ELSEWHERE.split_whitespace().collect();
    for word in list.iter().filter(|word| *word != "*") {
        let name = word.strip_prefix('-').unwrap_or(word);
        let here = CONTROLLERS.iter().any(|c| name == c.name || name == c.alias);
        match (here, elsewhere.contains(name), word.starts_with('-')) {
            (true, ..) | (false, true, true) => {}
            (false, true, false) => {
                return Err(format!(
                    "--controllers: `{name}` is not part of this program; run it in upstream's kube-controller-manager"
                ));
            }
            (false, false, _) => {
                return Err(format!("--controllers: `{name}` is not in the list of known controllers"));
            }
        }
    }
    let wanted = |controller: &&Controller| {
        let says = |word: &String| match word.strip_prefix('-') {
            Some(name) if name == controller.name || name == controller.alias => Some(false),
            None if word == controller.name || word == controller.alias => Some(true),
            _ => None,
        };
        list.iter().find_map(says).unwrap_or_else(|| list.iter().any(|word| word == "*"))
    };
    Ok(CONTROLLERS.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_as_upstream_does() {
        let chosen = |list: &str| {
            let list: Vec<String> = list.split(',').map(String::from).collect();
            enabled(&list).map(|found| found.iter().map(|c| c.alias).collect::<Vec<_>>())
        };
        assert_eq!(chosen("*").unwrap().len(), CONTROLLERS.len());
        assert_eq!(chosen("attachdetach,pv-protection").unwrap(), ["attachdetach", "pv-protection"]);
        assert_eq!(chosen("persistentvolume-binder-controller").unwrap(), ["persistentvolume-binder"]);
        assert!(!chosen("*,-attachdetach").unwrap().contains(&"attachdetach"));
        assert!(chosen("attachdetach,-attachdetach").unwrap().contains(&"attachdetach"), "the first counts");
        assert_eq!(chosen("*,-deployment-controller").unwrap().len(), CONTROLLERS.len());
        assert!(chosen("deployment-controller").unwrap_err().contains("not part of this program"));
        assert!(chosen("nonsense").unwrap_err().contains("not in the list of known controllers"));
    }

    /// An operator who replaces upstream's program has to know.
    #[test]
    fn a_controller_that_does_less_than_upstreams_says_so() {
        let lacking = |list: &str| {
            let enabled = enabled(&[list.to_owned()]).unwrap();
            enabled.iter().filter(|c| !c.lacks.is_empty()).map(|c| c.alias).collect::<Vec<_>>()
        };
        assert_eq!(lacking("*"), ["nodelifecycle"]);
        assert!(lacking("attachdetach").is_empty());
        assert!(nodelifecycle::LACKS.contains("not marked"), "{}", nodelifecycle::LACKS);
    }
}
