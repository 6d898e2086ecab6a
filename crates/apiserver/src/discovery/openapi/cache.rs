//! Documents that were asked for, kept until their kinds change. Nothing is made before someone asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::build;
use crate::http::{etag, gzip};
use crate::registry::{Kind, Registry};

/// A document, compressed: most clients take it so, and it is a tenth of the size.
pub struct Document {
    pub hash: String,
    pub packed: Bytes,
    /// What it was made of.
    kinds: Vec<Arc<dyn Kind>>,
}

/// Which document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    V2,
    V2Binary,
    V3 { group: String, version: String },
}

#[derive(Default)]
pub struct Documents {
    made: Mutex<BTreeMap<Name, Arc<Document>>>,
}

impl Documents {
    /// `None` if there are no such kinds. Slow when the document has to be made.
    pub fn get(&self, registry: &Registry, name: &Name) -> Option<Arc<Document>> {
        let kinds = kinds(registry, name);
        if kinds.is_empty() {
            return None;
        }
        // Held while a document is made, so that it is made once.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = made.get(name).filter(|document| same(&document.kinds, &kinds)) {
            return Some(document.clone());
        }
        made.retain(|name, _| !self::kinds(registry, name).is_empty());
        let content = match name {
            Name::V2 => build::everything(&kinds).to_string().into_bytes(),
            Name::V2Binary => build::everything_binary(&kinds),
            Name::V3 { .. } => build::group_version(&kinds).to_string().into_bytes(),
        };
        let hash = etag::hash(&content);
        let document = Arc::new(Document { hash, packed: gzip::pack(&content), kinds });
        made.insert(name.clone(), document.clone());
        Some(document)
    }
}

fn kinds(registry: &Registry, name: &Name) -> Vec<Arc<dyn Kind>> {
    let all = registry.kinds().filter(|kind| match name {
        Name::V2 | Name::V2Binary => true,
        Name::V3 { group, version } => {
            let info = kind.info();
            info.group == *group && info.version == *version
        }
    });
    all.cloned().collect()
}

/// Whether they are the very same kinds: one that was defined anew is another.
fn same(one: &[Arc<dyn Kind>], other: &[Arc<dyn Kind>]) -> bool {
    let pairs = || one.iter().zip(other);
    one.len() == other.len() && pairs().all(|(a, b)| std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)))
}
