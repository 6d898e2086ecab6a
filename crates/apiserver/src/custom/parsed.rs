//! Definitions that were read before: one write of one of them is no reason to read all of them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::definition::Definition;
use crate::store::Stored;

/// What the last look read, by name, and of which version of it.
#[derive(Default)]
pub struct Parsed(BTreeMap<String, (u64, Arc<Definition>)>);

impl Parsed {
    /// All that can be read of what is stored, in the same order. What is not stored any more is forgotten.
    pub fn all(&mut self, stored: Vec<Arc<Stored>>) -> (Vec<Arc<Stored>>, Vec<Arc<Definition>>) {
        let mut before = std::mem::take(&mut self.0);
        let mut read = |object: Arc<Stored>| {
            let (name, version) = (&object.key.name, object.version);
            let definition = match before.remove(name) {
                Some((known, definition)) if known == version => definition,
                _ => Arc::new(Definition::parse(&object.value())?),
            };
            self.0.insert(name.clone(), (version, definition.clone()));
            Some((object, definition))
        };
        stored.into_iter().filter_map(&mut read).unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_api::ObjectKey;

    fn stored(name: &str, version: u64, group: &str) -> Arc<Stored> {
        let json = format!(r#"{{"spec": {{"group": {group:?}}}}}"#);
        Arc::new(Stored::new(ObjectKey::cluster(name), version, json.into()))
    }

    #[test]
    fn only_what_changed_is_read() {
        let mut parsed = Parsed::default();
        let (_, first) = parsed.all(vec![stored("a", 1, "x"), stored("b", 2, "x")]);
        let (_, second) = parsed.all(vec![stored("a", 1, "x"), stored("b", 3, "y")]);
        assert!(Arc::ptr_eq(&first[0], &second[0]));
        assert_eq!((first[1].spec.group.as_str(), second[1].spec.group.as_str()), ("x", "y"));
        parsed.all(Vec::new());
        assert!(parsed.0.is_empty());
    }
}
