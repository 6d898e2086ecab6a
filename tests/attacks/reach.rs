//! Attacks over the network that pods share with the machine.

use serde_json::json;

use crate::identity::pod;
use crate::{Attack, nothing_worked};

/// Sockets that see or forge the traffic of others: AF_PACKET, and AF_INET with SOCK_RAW.
const SNIFF: &str = r#"
print "BROKEN: packet socket\n" if syscall(41, 17, 3, 0x0300) >= 0;
print "BROKEN: raw socket\n" if syscall(41, 2, 3, 1) >= 0;
print "done\n";
"#;

pub fn attacks() -> Vec<Attack> {
    vec![Attack {
        name: "S5: packets of the shared network",
        pod: pod(SNIFF, json!({})),
        claims: &[],
        held: nothing_worked,
    }]
}
