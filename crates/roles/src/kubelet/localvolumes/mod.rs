//! Upstream: the kubelet's own volume plugins (emptyDir, configMap, secret, downwardAPI, projected), its token manager
//! and its managers of secrets and config maps.
//!
//! Watches the Pods of this node and each Secret and ConfigMap that they name, one by one; reads the Node. Asks for tokens
//! (`serviceaccounts/token`), mounts filesystems in memory and writes files below `pods/<uid>/volumes/<plugin>/<name>`.
//!
//! | going in | going out |
//! |---|---|
//! | the pod is on this node | the pod's last container has ended |
//! | a token for each that is asked for | unmounted |
//! | every object that is named is there, or may be missing | its directory removed |
//! | directory, filesystem in memory, files | forgotten |
//!
//! Promises: LOCAL-1 (what containers read changes as a whole: they see all of the old files or all of the new ones),
//! LOCAL-2 (secrets and tokens are never on a disk), LOCAL-3 (a token is renewed before it ends, at 80 % of its life and at
//! the latest after a day), LOCAL-4 (after any crash nothing of a pod that has gone is left).
//!
//! Differs from upstream: changed objects are written at once and not with the next look at the pod; what an earlier
//! process was writing when it died is removed; tokens of one time are not spread by chance.
//! Not here yet: clusterTrustBundle and podCertificate in projected volumes, huge pages, an end for pods whose
//! emptyDir on disk has outgrown its `sizeLimit`. One in memory without `sizeLimit` may fill half of the machine's memory,
//! whatever the limits of its pod are.

mod act;
mod decide;
mod memory;
mod model;
mod observe;
mod payload;
mod plan;
mod prepare;
mod reconstruct;
mod role;
#[cfg(test)]
mod tests;
mod tokens;
mod view;
mod writer;

pub use plan::{Plugin, makes, problem};
pub use role::{Manager, Settings};
pub use tokens::Token;
pub use view::Local;
