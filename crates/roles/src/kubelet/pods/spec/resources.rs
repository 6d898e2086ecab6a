//! What a container may use up, in the kernel's units. Pure.

use bowline_api::{Container, quantity};
use bowline_host::containers::Resources;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Problem, config};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// Upstream's `MilliCPUToShares` and `MilliCPUToQuota`.
const SHARES_PER_CPU: u64 = 1024;
const SHARES_MIN: u64 = 2;
const SHARES_MAX: u64 = 262_144;
const MILLI: u64 = 1000;
/// Microseconds of a period of 100 ms for each thousandth of a CPU.
const QUOTA_PER_MILLI: u64 = 100;
const QUOTA_MIN: u64 = 1000;

/// Processes and threads of one container: room for a large server, and an end for one that only forks.
const PIDS_MAX: u64 = 4096;

pub fn resources(container: &Container) -> Result<Resources, Problem> {
    let asked = container.resources.clone().unwrap_or_default();
    unsupported(&asked)?;
    let limit = |name: &str| asked.limits.as_ref().and_then(|list| list.get(name));
    let request = |name: &str| asked.requests.as_ref().and_then(|list| list.get(name));
    let cpu_limit = limit(CPU).map(milli).transpose()?.filter(|milli| *milli > 0);
    let requested = request(CPU).map(milli).transpose()?.or(cpu_limit).unwrap_or(0);
    Ok(Resources {
        memory_max: limit(MEMORY).map(whole).transpose()?.filter(|bytes| *bytes > 0),
        cpu_shares: Some((requested.saturating_mul(SHARES_PER_CPU) / MILLI).clamp(SHARES_MIN, SHARES_MAX)),
        cpu_quota: cpu_limit.map(|milli| milli.saturating_mul(QUOTA_PER_MILLI).max(QUOTA_MIN)),
        pids_max: Some(PIDS_MAX),
    })
}

/// A request for local storage concerns the scheduler only; a limit of it would have to be watched here.
fn unsupported(asked: &ResourceRequirements) -> Result<(), Problem> {
    if let Some(claim) = asked.claims.iter().flatten().next() {
        return Err(config(format!("resource claim {:?} is not supported here", claim.name)));
    }
    let limits = asked.limits.iter().flatten().map(|(name, _)| ("limits", name));
    let requests = asked.requests.iter().flatten().map(|(name, _)| ("requests", name));
    let known = |(list, name): &(&str, &String)| match name.as_str() {
        CPU | MEMORY => true,
        EPHEMERAL_STORAGE => *list == "requests",
        _ => false,
    };
    match limits.chain(requests).find(|one| !known(one)) {
        Some((list, name)) => {
            Err(config(format!("resources.{list}[{name:?}] is not supported here: only cpu and memory are")))
        }
        None => Ok(()),
    }
}

fn milli(quantity: &Quantity) -> Result<u64, Problem> {
    in_units(quantity, quantity::NANO / 1000)
}

fn whole(quantity: &Quantity) -> Result<u64, Problem> {
    in_units(quantity, quantity::NANO)
}

/// Rounded up, as upstream does.
fn in_units(quantity: &Quantity, unit: i128) -> Result<u64, Problem> {
    let wrong = |why: String| config(format!("quantity {:?}: {why}", quantity.0));
    let nanos = quantity::nanos(&quantity.0).map_err(|error| wrong(error.to_string()))?;
    let units = nanos / unit + i128::from(nanos % unit > 0);
    u64::try_from(units).map_err(|_| wrong("out of range".into()))
}
