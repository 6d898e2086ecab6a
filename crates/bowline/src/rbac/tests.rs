//! Each table is within what upstream grants, and prints as what kubectl reads.

use std::collections::BTreeSet;

use bowline_roles::controllers::CONTROLLERS;
use bowline_roles::rights::{self, Right};
use serde_json::Value;

use super::*;

/// Upstream's roles, as its server makes them.
const BOOTSTRAP: &str = include_str!("../../../apiserver/bootstrap/rbac.jsonl");

/// The rules of roles of these names.
fn upstream(names: &[String]) -> Vec<Value> {
    let roles = BOOTSTRAP.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let wanted = |role: &Value| {
        role["kind"] == "ClusterRole" && names.iter().any(|name| role["metadata"]["name"] == name.as_str())
    };
    let found: Vec<Value> = roles.filter(wanted).collect();
    assert_eq!(found.len(), names.len(), "{names:?}");
    found.iter().flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()).collect()
}

fn allows(rules: &[Value], right: &Right) -> bool {
    let has = |list: &Value, wanted: &str| {
        list.as_array().is_some_and(|list| list.iter().any(|item| item == "*" || item == wanted))
    };
    rules.iter().any(|rule| {
        rule["resourceNames"].is_null()
            && has(&rule["apiGroups"], right.group)
            && has(&rule["resources"], &right.resource)
            && has(&rule["verbs"], right.verb)
    })
}

#[test]
fn controllers_and_scheduler_need_no_more_than_upstreams() {
    for controller in CONTROLLERS {
        // Caches are filled by the program.
        let own = format!("system:controller:{}", controller.account);
        let rules = upstream(&[own, "system:kube-controller-manager".into()]);
        let beyond: Vec<Right> =
            rights::each(controller.rights).filter(|right| !allows(&rules, right)).collect();
        assert_eq!(beyond, [], "{}", controller.name);
    }
    let rules = upstream(&["system:kube-scheduler".into(), "system:volume-scheduler".into()]);
    let beyond: Vec<Right> = rights::each(rights::SCHEDULER).filter(|right| !allows(&rules, right)).collect();
    assert_eq!(beyond, [], "kube-scheduler");
}

/// The rules of the manifests that upstream's sidecars are deployed with (`tests/peers/rbac`).
fn manifest(text: &str, kind: &str) -> Vec<Value> {
    let documents =
        text.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).expect("an object"));
    let roles = documents.filter(|object| object["kind"] == kind);
    roles.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()).collect()
}

#[test]
fn sidecars_need_no_more_than_upstreams() {
    let provisioner = include_str!("../../../../tests/peers/rbac/csi-provisioner.yaml");
    let attacher = include_str!("../../../../tests/peers/rbac/csi-attacher.yaml");
    let resizer = include_str!("../../../../tests/peers/rbac/csi-resizer.yaml");
    let snapshotter = include_str!("../../../../tests/peers/rbac/csi-snapshotter.yaml");
    let controller = include_str!("../../../../tests/peers/rbac/snapshot-controller.yaml");
    let monitor = include_str!("../../../../tests/peers/rbac/csi-external-health-monitor-controller.yaml");
    // Upstream's provisioner reads the class that a claim names, too; its manifest does not say so.
    let class = Right { group: "storage.k8s.io", resource: "volumeattributesclasses".into(), verb: "get" };
    // It also puts a finalizer on snapshots since 6.3, and does without where it may not.
    let update =
        Right { group: "snapshot.storage.k8s.io", resource: "volumesnapshots".into(), verb: "update" };
    let cases = [
        (rights::PROVISIONER, provisioner, "ClusterRole", vec![class, update]),
        (rights::PROVISIONER_LEASES, provisioner, "Role", vec![]),
        (rights::PROVISIONER_CAPACITY, provisioner, "Role", vec![]),
        (rights::ATTACHER, attacher, "ClusterRole", vec![]),
        (rights::ATTACHER_LEASES, attacher, "Role", vec![]),
        (rights::RESIZER, resizer, "ClusterRole", vec![]),
        (rights::RESIZER_LEASES, resizer, "Role", vec![]),
        (rights::SNAPSHOTTER, snapshotter, "ClusterRole", vec![]),
        (rights::SNAPSHOT_LEASES, snapshotter, "Role", vec![]),
        (rights::SNAPSHOT_CONTROLLER, controller, "ClusterRole", vec![]),
        (rights::SNAPSHOT_LEASES, controller, "Role", vec![]),
        (rights::HEALTH_MONITOR, monitor, "ClusterRole", vec![]),
        (rights::HEALTH_MONITOR_LEASES, monitor, "Role", vec![]),
    ];
    for (table, text, kind, expected) in cases {
        let rules = manifest(text, kind);
        assert!(!rules.is_empty(), "{kind}");
        let beyond: Vec<Right> = rights::each(table).filter(|right| !allows(&rules, right)).collect();
        assert_eq!(beyond, expected, "{kind} of {table:?}");
    }
}

#[test]
fn sidecars_in_one_process_have_the_rights_of_those_that_are_enabled() {
    let grant = |controllers: &str| rbac(controllers).grant("sidecars");
    let resources = |grant: &Grant| -> BTreeSet<String> {
        grant.cluster.iter().flat_map(|rule| rule.resources.clone()).collect()
    };
    let attacher = resources(&grant("attacher,livenessprobe").expect("known"));
    assert!(
        attacher.contains("volumeattachments/status") && !attacher.contains("storageclasses"),
        "{attacher:?}"
    );
    let all = resources(&grant("*").expect("known"));
    assert!(all.is_superset(&attacher) && all.contains("storageclasses"), "{all:?}");
    assert!(grant("mounter").is_err());
}

fn rbac(controllers: &str) -> Rbac {
    Rbac {
        programs: Vec::new(),
        controllers: controllers.split(',').map(String::from).collect(),
        namespace: "kube-system".into(),
        user: None,
        use_service_account_credentials: false,
        secrets: false,
    }
}

#[test]
fn a_program_with_account_credentials_reads_and_issues_tokens_of_its_controllers_alone() {
    let rbac = Rbac { use_service_account_credentials: true, ..rbac("pv-protection,attachdetach") };
    let grant = rbac.grant("kube-controller-manager").expect("known controllers");
    let reviews = |rule: &&objects::Rule| !rule.resources.iter().any(|one| one.ends_with("reviews"));
    let verbs: BTreeSet<&String> =
        grant.cluster.iter().filter(reviews).flat_map(|rule| &rule.verbs).collect();
    assert_eq!(verbs, ["list", "watch"].map(String::from).iter().collect());
    let tokens =
        grant.accounts.iter().find(|rule| rule.resources == ["serviceaccounts/token"]).expect("tokens");
    assert_eq!(tokens.verbs, ["create"]);
    let names: BTreeSet<&str> = tokens.names.iter().map(String::as_str).collect();
    assert_eq!(names, ["attachdetach-controller", "pv-protection-controller"].into());
}

/// The accounts are in kube-system wherever the program is.
#[test]
fn tokens_are_granted_where_the_accounts_are() {
    let rbac = Rbac { use_service_account_credentials: true, ..rbac("pv-protection") };
    let grant = rbac.grant("kube-controller-manager").expect("known controllers");
    let roles = |namespace: &str| {
        let objects = grant_objects(&grant, namespace, &Holder::ServiceAccount);
        let roles = objects.into_iter().filter(|object| object["kind"] == "Role");
        let of = |role: Value| {
            let rules = role["rules"].as_array().cloned().unwrap_or_default();
            let resources = rules.iter().filter_map(|rule| rule["resources"][0].as_str());
            let resources: BTreeSet<String> = resources.map(String::from).collect();
            (role["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(), resources)
        };
        roles.map(of).collect::<Vec<_>>()
    };
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<String>>();
    let tokens = ["serviceaccounts", "serviceaccounts/token"];
    let expected = [("storage".into(), set(&["leases"])), ("kube-system".into(), set(&tokens))];
    let (mut found, mut expected) = (roles("storage"), expected.to_vec());
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let all = ["leases", "serviceaccounts", "serviceaccounts/token"];
    assert_eq!(roles("kube-system"), [("kube-system".into(), set(&all))]);
    let bound = grant_objects(&grant, "storage", &Holder::ServiceAccount);
    let bindings = bound.iter().filter(|object| object["kind"] == "RoleBinding");
    assert!(
        bindings.clone().count() == 2
            && bindings.into_iter().all(|binding| { binding["subjects"][0]["namespace"] == "storage" })
    );
}

/// Upstream's server grants the same to its programs.
#[test]
fn programs_that_serve_metrics_may_review_their_clients() {
    for program in ["kube-controller-manager", "kube-scheduler"] {
        let rules = upstream(&[format!("system:{program}")]);
        assert!(rights::each(rights::REVIEWS).all(|right| allows(&rules, &right)), "{program}");
        let grant = rbac("pv-protection").grant(program).expect("a known program");
        let granted: BTreeSet<String> = grant.cluster.into_iter().flat_map(|rule| rule.resources).collect();
        assert!(
            ["tokenreviews", "subjectaccessreviews"].iter().all(|one| granted.contains(*one)),
            "{program}"
        );
    }
}

#[test]
fn fewer_controllers_get_fewer_rights() {
    let grant = |controllers: &str| {
        let grant = rbac(controllers).grant("kube-controller-manager").expect("known controllers");
        let resources = grant.cluster.into_iter().flat_map(|rule| rule.resources);
        resources.collect::<BTreeSet<String>>()
    };
    let protection = ["persistentvolumes", "subjectaccessreviews", "tokenreviews"].map(String::from);
    assert_eq!(grant("pv-protection"), BTreeSet::from(protection));
    assert!(grant("*").contains("*"), "the garbage collector");
    assert!(!grant("*,-garbagecollector").contains("*"));
}

#[test]
fn a_grant_prints_as_yaml() {
    let grant = Grant::new("csi-attacher", rights::each(rights::ATTACHER), lease("csi-attacher"));
    let printed = yaml::print(&grant_objects(&grant, "storage", &Holder::ServiceAccount));
    let expected = "\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: csi-attacher
  namespace: storage
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: bowline:csi-attacher
rules:
- {apiGroups: [\"\"], resources: [persistentvolumes], verbs: [list, patch, watch]}
- {apiGroups: [storage.k8s.io], resources: [csinodes], verbs: [list, watch]}
- {apiGroups: [storage.k8s.io], resources: [volumeattachments], verbs: [list, patch, watch]}
- {apiGroups: [storage.k8s.io], resources: [volumeattachments/status], verbs: [patch]}
---
";
    assert!(printed.starts_with(expected), "{printed}");
    assert!(printed.contains("resourceNames: [csi-attacher]"), "{printed}");
    let user = yaml::print(&grant_objects(&grant, "storage", &Holder::User("system:x".into())));
    assert!(!user.contains("ServiceAccount") && user.contains("kind: User, name: system:x"), "{user}");
}
