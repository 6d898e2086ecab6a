//! A map of bounded size that forgets what was used least recently.

use std::collections::BTreeMap;

pub(crate) struct Recent<K, V> {
    size: usize,
    values: BTreeMap<K, (u64, V)>,
    /// Keys by when they were last used.
    order: BTreeMap<u64, K>,
    uses: u64,
}

impl<K: Ord + Clone, V> Recent<K, V> {
    pub fn new(size: usize) -> Self {
        Self { size, values: BTreeMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (used, value) = self.values.get_mut(key)?;
        self.uses += 1;
        self.order.remove(used);
        self.order.insert(self.uses, key.clone());
        *used = self.uses;
        Some(value)
    }

    pub fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        if let Some((used, _)) = self.values.insert(key.clone(), (self.uses, value)) {
            self.order.remove(&used);
        }
        self.order.insert(self.uses, key);
        while self.values.len() > self.size
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.values.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_least_recently_goes_first() {
        let mut recent = Recent::new(2);
        recent.insert("a", 1);
        recent.insert("b", 2);
        assert_eq!(recent.get_mut(&"a"), Some(&mut 1));
        recent.insert("c", 3);
        let has = |recent: &mut Recent<_, _>, key| recent.get_mut(&key).copied();
        assert_eq!((has(&mut recent, "a"), has(&mut recent, "b")), (Some(1), None));
        recent.insert("c", 4);
        recent.insert("d", 5);
        assert_eq!((has(&mut recent, "c"), has(&mut recent, "a")), (Some(4), None));
        assert_eq!((recent.values.len(), recent.order.len()), (2, 2));
    }
}
