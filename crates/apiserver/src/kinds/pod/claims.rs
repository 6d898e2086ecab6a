//! Devices that a pod claims, and that its containers use.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodResourceClaim, PodSpec, ResourceClaim};

use crate::field::{Invalid, Reason};
use crate::kinds::check::{go, names};

pub fn errors(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let claims = spec.resource_claims.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        let at = format!("{at}[{index}]");
        errors.extend(match claim.name.as_str() {
            "" => vec![Invalid::required(format!("{at}.name"), "")],
            name if claims[..index].iter().any(|earlier| earlier.name == name) => {
                vec![Invalid::duplicate(format!("{at}.name"), name)]
            }
            name => names::label(&format!("{at}.name"), name),
        });
        errors.extend(source_errors(&at, claim));
    }
    errors
}

fn source_errors(at: &str, claim: &PodResourceClaim) -> Vec<Invalid> {
    let (named, template) = (&claim.resource_claim_name, &claim.resource_claim_template_name);
    let text = match (named, template) {
        (Some(_), Some(_)) => {
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        }
        (None, None) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        _ => "",
    };
    let mut errors = Vec::new();
    if !text.is_empty() {
        errors.push(go::invalid(at, "core.v1.PodResourceClaim", claim, text));
    }
    for (field, name) in [("resourceClaimName", named), ("resourceClaimTemplateName", template)] {
        errors.extend(name.iter().flat_map(|name| names::subdomain(&format!("{at}.{field}"), name)));
    }
    errors
}

/// Claims that a container uses are claims of its pod, each at most once.
pub fn used(at: &str, used: &[ResourceClaim], spec: &PodSpec) -> Vec<Invalid> {
    let known: BTreeSet<&str> =
        spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str()).collect();
    let mut errors = Vec::new();
    for (index, claim) in used.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if claim.name.is_empty() {
            errors.push(Invalid::required(at, ""));
            continue;
        }
        let request = claim.request.as_deref().unwrap_or_default();
        if !request.is_empty() {
            errors.extend(names::label(&format!("{at}.request"), request));
        }
        // A whole claim overlaps with each of its requests.
        let overlaps = |earlier: &&ResourceClaim| {
            let other = earlier.request.as_deref().unwrap_or_default();
            earlier.name == claim.name && (other == request || other.is_empty() || request.is_empty())
        };
        if used[..index].iter().any(|earlier| overlaps(&earlier)) {
            errors.push(Invalid::duplicate(at.as_str(), claim.name.as_str()));
        }
        if !known.contains(claim.name.as_str()) {
            let names = known.iter().copied().collect::<Vec<_>>().join(", ");
            let rest = if names.is_empty() { " which is empty".to_owned() } else { format!(": {names}") };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{rest}");
            let value = Some(claim.name.as_str().into());
            errors.push(Invalid { reason: Reason::NotFound, field: at, value, detail });
        }
    }
    errors
}
