//! Lists: the live state, or the state of an earlier version rebuilt by undoing events.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bowline_api::ObjectKey;

use super::object::Stored;
use super::state::State;

/// The version asked for is older than what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("version {wanted} is too old; the oldest kept is {oldest}")]
pub struct Gone {
    pub wanted: u64,
    pub oldest: u64,
}

/// A stretch of a list.
#[derive(Debug)]
pub struct Page {
    /// The version all objects here were current at.
    pub version: u64,
    /// In order of namespace and name.
    pub objects: Vec<Arc<Stored>>,
    /// How many follow after the last one, as [`Rest`] says.
    pub remaining: usize,
}

/// What a reader wants to know of the objects behind a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// How many there are, which takes as long as reading them.
    Counted,
    /// Whether there are any: 0 or 1.
    Noticed,
}

/// Where a page begins, at which version, and how much it holds.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    pub after: Option<&'a ObjectKey>,
    pub at: Option<u64>,
    pub max: usize,
    pub rest: Rest,
}

/// Objects are shared, not copied; the lock is held only while their pointers are gathered.
pub fn page(
    state: &State,
    resource: &str,
    namespace: Option<&str>,
    stretch: Stretch<'_>,
) -> Result<Page, Gone> {
    let Stretch { after, at, max, rest } = stretch;
    let version = at.unwrap_or(state.version());
    let oldest = state.floor(resource);
    if version < oldest {
        return Err(Gone { wanted: version, oldest });
    }
    let Some(table) = state.table(resource) else {
        return Ok(Page { version, objects: Vec::new(), remaining: 0 });
    };
    let inside = |key: &ObjectKey| {
        namespace.is_none_or(|wanted| key.namespace == wanted) && after.is_none_or(|last| key > last)
    };

    // What each key held at `version`, for the keys that were written since.
    let mut undone: BTreeMap<&ObjectKey, Option<&Arc<Stored>>> = BTreeMap::new();
    for event in table.log.after(version).rev().filter(|event| inside(&event.object.key)) {
        undone.insert(&event.object.key, event.previous.as_ref());
    }
    let first = namespace.map(|wanted| ObjectKey::new(wanted, ""));
    let start = match (after, &first) {
        (Some(last), Some(first)) if last < first => Bound::Included(first),
        (Some(last), _) => Bound::Excluded(last),
        (None, Some(first)) => Bound::Included(first),
        (None, None) => Bound::Unbounded,
    };
    let live = table
        .objects
        .range((start, Bound::Unbounded))
        .take_while(|(key, _)| namespace.is_none_or(|wanted| key.namespace == wanted))
        .filter(|(key, _)| !undone.contains_key(key));
    let past = undone.iter().filter_map(|(key, object)| Some((*key, (*object)?)));

    let mut page = Page { version, objects: Vec::new(), remaining: 0 };
    for object in merged(live, past) {
        if page.objects.len() < max {
            page.objects.push(object.clone());
        } else {
            page.remaining += 1;
            if rest == Rest::Noticed {
                break;
            }
        }
    }
    Ok(page)
}

/// Two sorted sequences without common keys as one.
fn merged<'a>(
    left: impl Iterator<Item = (&'a ObjectKey, &'a Arc<Stored>)>,
    right: impl Iterator<Item = (&'a ObjectKey, &'a Arc<Stored>)>,
) -> impl Iterator<Item = &'a Arc<Stored>> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || {
        let take_left = match (left.peek(), right.peek()) {
            (Some((a, _)), Some((b, _))) => a < b,
            (some, _) => some.is_some(),
        };
        let next = if take_left { left.next() } else { right.next() };
        next.map(|(_, object)| object)
    })
}
