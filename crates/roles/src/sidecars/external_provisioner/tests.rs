//! Decision tables of the reference, upstream's topology example, and PROV-1 to PROV-3 as properties.

mod claims;
mod intent;
mod object;
mod ownership;
mod parameters;
mod pools;
mod restores;
mod sources;
mod topology;
mod volumes;

use std::sync::Arc;

use bowline_machinery::capability::SingleNode;

use super::model::{Naming, Settings};

const DRIVER: &str = "d.example";

/// A driver that makes volumes and knows no topology, and upstream's default flags.
fn settings() -> Settings {
    Settings {
        driver: DRIVER.into(),
        controller: true,
        creates: true,
        restores: true,
        clones: true,
        modifies: false,
        topology: false,
        single_node: SingleNode::Plain,
        identity: "1-2-d.example".into(),
        naming: Naming { prefix: "pvc".into(), uuid_length: None },
        strict_topology: false,
        immediate_topology: true,
        extra_create_metadata: false,
        controller_publish_readonly: false,
        default_fstype: String::new(),
        prevent_mode_conversion: true,
        node: None,
    }
}

fn shared(settings: Settings) -> Arc<Settings> {
    Arc::new(settings)
}
