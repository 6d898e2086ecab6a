//! Real members of etcd on loopback. `ETCD` names the program; `make test` builds it and sets it.

pub mod cluster;
mod failures;
mod leases;
mod losses;
#[path = "../../../../../../tests/support/ports.rs"]
mod ports;
mod proxy;
mod revisions;
mod several;
mod tls;

use super::suite::count_up;
use super::*;
use cluster::Cluster;
use proxy::Proxy;
