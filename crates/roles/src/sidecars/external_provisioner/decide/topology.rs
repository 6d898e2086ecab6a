//! Where a volume may be: requisite and preferred terms for CreateVolume.

use std::collections::BTreeMap;

use bowline_api::{CSINode, Meta, Node};
use bowline_proto::csi::v1::{Topology, TopologyRequirement};
use k8s_openapi::api::core::v1::TopologySelectorTerm;

use super::super::model::{Cluster, Why};

/// One place: topology key → value.
pub type Term = BTreeMap<String, String>;

/// What the choice depends on, beside the cluster.
pub struct Request<'a> {
    pub driver: &'a str,
    pub claim: &'a str,
    /// Set: delayed binding.
    pub selected: Option<&'a str>,
    pub allowed: &'a [TopologySelectorTerm],
    pub strict: bool,
    pub immediate: bool,
}

pub fn requirement(request: &Request<'_>, cluster: &Cluster) -> Result<Option<TopologyRequirement>, Why> {
    match request.selected {
        Some(node) => delayed(request, cluster, node),
        None => immediate(request, cluster),
    }
}

/// The selected node comes first; with `--strict-topology` it is the only one.
fn delayed(request: &Request<'_>, cluster: &Cluster, node: &str) -> Result<Option<TopologyRequirement>, Why> {
    let keys = keys_of_node(request.driver, cluster, node)?;
    let selected = term_of_node(cluster, node, &keys)?;
    let allowed = flattened(request.allowed);
    let within = |terms: &[Term]| terms.iter().position(|term| is_subset(term, &selected));
    let not_allowed = || {
        Why::Invalid(format!(
            "selected node \"{node}\" with topology {selected:?} is not in allowedTopologies"
        ))
    };
    if request.strict {
        if !allowed.is_empty() && within(&allowed).is_none() {
            return Err(not_allowed());
        }
        return Ok(Some(built(std::slice::from_ref(&selected), 0)));
    }
    let requisite = if allowed.is_empty() { terms_of_nodes(cluster, &keys) } else { allowed };
    let first = within(&requisite).ok_or_else(not_allowed)?;
    Ok(Some(built(&requisite, first)))
}

/// Spread over all places by the claim's name.
fn immediate(request: &Request<'_>, cluster: &Cluster) -> Result<Option<TopologyRequirement>, Why> {
    let allowed = flattened(request.allowed);
    let requisite = if !allowed.is_empty() {
        allowed
    } else if request.immediate {
        let keys = cluster.csi_nodes.iter().filter_map(|node| topology_keys(request.driver, node));
        let keys = keys.into_iter().find(|keys| !keys.is_empty());
        let keys = keys.ok_or_else(|| Why::Invalid("no available topology found".into()))?;
        terms_of_nodes(cluster, &keys)
    } else {
        Vec::new()
    };
    if requisite.is_empty() {
        return Ok(None);
    }
    let (hash, index) = spread(request.claim);
    let first = hash.wrapping_add(index) as usize % requisite.len();
    Ok(Some(built(&requisite, first)))
}

/// Requisite as it is, preferred the same but beginning elsewhere.
fn built(requisite: &[Term], first: usize) -> TopologyRequirement {
    let topology = |term: &Term| Topology { segments: term.clone() };
    let rotated = requisite[first..].iter().chain(&requisite[..first]);
    TopologyRequirement {
        requisite: requisite.iter().map(topology).collect(),
        preferred: rotated.map(topology).collect(),
    }
}

fn topology_keys(driver: &str, node: &CSINode) -> Option<Vec<String>> {
    let entry = node.spec.drivers.iter().find(|d| d.name == driver)?;
    entry.topology_keys.clone()
}

fn keys_of_node(driver: &str, cluster: &Cluster, node: &str) -> Result<Vec<String>, Why> {
    let found = cluster.csi_nodes.iter().find(|n| n.name() == node);
    let found = found.ok_or_else(|| Why::NodeMissing(node.to_owned()))?;
    let keys = topology_keys(driver, found).filter(|keys| !keys.is_empty());
    keys.ok_or_else(|| Why::Invalid(format!("no topology key found on CSINode {node}")))
}

fn term_of_node(cluster: &Cluster, name: &str, keys: &[String]) -> Result<Term, Why> {
    let node = cluster.nodes.iter().find(|n| n.name() == name);
    let node = node.ok_or_else(|| Why::Invalid(format!("node \"{name}\" not found")))?;
    term(node, keys).ok_or_else(|| {
        Why::Invalid(format!("topology labels from selected node \"{name}\" do not have all of {keys:?}"))
    })
}

/// The node's place; `None` unless it has a label for every key.
fn term(node: &Node, keys: &[String]) -> Option<Term> {
    keys.iter().map(|key| Some((key.clone(), node.label(key)?.to_owned()))).collect()
}

fn terms_of_nodes(cluster: &Cluster, keys: &[String]) -> Vec<Term> {
    sorted(cluster.nodes.iter().filter_map(|node| term(node, keys)).collect())
}

/// Allowed topologies as plain terms: the product inside each, the union over all.
pub fn flattened(allowed: &[TopologySelectorTerm]) -> Vec<Term> {
    let product = |selector: &TopologySelectorTerm| {
        let expressions = selector.match_label_expressions.as_deref().unwrap_or_default();
        let combine = |terms: Vec<Term>, key: &String, values: &[String]| -> Vec<Term> {
            let with = |term: &Term, value: &String| {
                let mut term = term.clone();
                term.insert(key.clone(), value.clone());
                term
            };
            terms.iter().flat_map(|term| values.iter().map(move |value| with(term, value))).collect()
        };
        let terms = expressions.iter().fold(vec![Term::new()], |terms, e| combine(terms, &e.key, &e.values));
        terms.into_iter().filter(|term| !term.is_empty()).collect::<Vec<_>>()
    };
    sorted(allowed.iter().flat_map(product).collect())
}

/// Shorter terms first, then by key and value; the same list for everyone who looks.
fn sorted(mut terms: Vec<Term>) -> Vec<Term> {
    terms.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.iter().cmp(b.iter())));
    terms.dedup();
    terms
}

fn is_subset(term: &Term, of: &Term) -> bool {
    term.iter().all(|(key, value)| of.get(key) == Some(value))
}

/// Hash and offset of a claim's name. Claims of one StatefulSet (`<claim>-<set>-<number>`) share the hash of the set's
/// name and differ by their number, so that they land in consecutive places.
pub fn spread(claim: &str) -> (u32, u32) {
    let numbered = claim.rsplit_once('-').and_then(|(base, number)| {
        let digits = !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
        Some((base, number.parse::<u32>().ok().filter(|_| digits)?))
    });
    match numbered {
        Some((base, index)) => (fnv1(base.rsplit_once('-').map_or(base, |(_, set)| set)), index),
        None => (fnv1(claim), 0),
    }
}

/// 32-bit FNV-1: multiply, then xor.
fn fnv1(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}
