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

use bowline_machinery::supervise::supervised;
use bowline_machinery::{Ports, Role, RunError, role};
use futures::future::BoxFuture;

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
    /// `None` when the settings leave it nothing to do.
    start: fn(&Ports, &Settings) -> Option<Running>,
}

/// Every controller that there is here.
pub const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "persistentvolume-binder-controller",
        alias: "persistentvolume-binder",
        start: |ports, settings| Some(run::<persistentvolume::Binder>(ports, settings.binder.clone())),
    },
    Controller {
        name: "persistentvolume-attach-detach-controller",
        alias: "attachdetach",
        start: |ports, settings| Some(run::<attachdetach::Controller>(ports, settings.attach_detach.clone())),
    },
    Controller {
        name: "persistentvolume-protection-controller",
        alias: "pv-protection",
        start: |ports, _| Some(run::<pvprotection::Protection>(ports, ())),
    },
    Controller {
        name: "persistentvolumeclaim-protection-controller",
        alias: "pvc-protection",
        start: |ports, _| Some(run::<pvcprotection::Protection>(ports, ())),
    },
    Controller {
        name: "garbage-collector-controller",
        alias: "garbagecollector",
        start: |ports, _| Some(run::<garbagecollector::Collector>(ports, ())),
    },
    Controller {
        name: "node-lifecycle-controller",
        alias: "nodelifecycle",
        start: |ports, _| Some(run::<nodelifecycle::Lifecycle>(ports, ())),
    },
    Controller {
        name: "serviceaccount-controller",
        alias: "serviceaccount",
        start: |ports, _| Some(run::<serviceaccount::Accounts>(ports, ())),
    },
    Controller {
        name: "root-ca-certificate-publisher-controller",
        alias: "root-ca-cert-publisher",
        start: |ports, settings| {
            settings.root_ca.clone().map(|root| run::<rootcacertpublisher::Publisher>(ports, root))
        },
    },
];

/// Controllers of upstream's program that are not here: they may be disabled, and cannot be enabled.
const ELSEWHERE: &str = include_str!("elsewhere.txt");

fn run<R: Role<Settings: Clone + Sync>>(ports: &Ports, settings: R::Settings) -> Running {
    let with = ports.clone();
    Box::pin(supervised(R::NAME, ports, move || role::run::<R>(with.clone(), settings.clone())))
}

impl Controller {
    /// Runs until the process stops or loses its lease.
    pub fn start(&self, ports: &Ports, settings: &Settings) -> Option<Running> {
        (self.start)(ports, settings)
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
}
