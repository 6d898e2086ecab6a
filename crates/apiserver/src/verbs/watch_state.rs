//! What is there when a watch begins, read a stretch at a time: a watcher that does not read holds one stretch.

use std::sync::Arc;
use std::vec;

use bowline_api::ObjectKey;

use super::Call;
use crate::core::Core;
use crate::registry::seen;
use crate::store::{Gone, Page, Stored};

/// Objects of one stretch, and about how many bytes of JSON they have together.
const OBJECTS_MAX: usize = 512;
const BYTES_MAX: usize = 256 << 10;

/// The objects of one version. All stretches are of that version, whose history is kept meanwhile; if it is forgotten all
/// the same, the watch has to begin again, as any watch that is too slow.
pub struct State {
    pub version: u64,
    /// Whether a bookmark says that this is all.
    pub mark_end: bool,
    stretch: vec::IntoIter<Arc<Stored>>,
    /// Where the next stretch begins; `None` after the last one.
    after: Option<ObjectKey>,
}

impl State {
    pub fn begin(core: &Core, call: &Call, mark_end: bool) -> Result<Self, Gone> {
        let page = page(core, call, None, None)?;
        let mut state =
            Self { version: page.version, mark_end, stretch: Vec::new().into_iter(), after: None };
        state.take(page);
        Ok(state)
    }

    /// The next object as the kind of the call sees it; `None` at the end.
    pub fn next(&mut self, core: &Core, call: &Call) -> Result<Option<Arc<Stored>>, Gone> {
        if self.stretch.as_slice().is_empty()
            && let Some(after) = self.after.take()
        {
            self.take(page(core, call, Some(&after), Some(self.version))?);
        }
        Ok(self.stretch.next().map(|object| seen(call.kind.as_ref(), &object)))
    }

    fn take(&mut self, mut page: Page) {
        let mut bytes = 0;
        let fits = |object: &Arc<Stored>| {
            let fits = bytes < BYTES_MAX;
            bytes += object.json.len();
            fits
        };
        let count = page.objects.iter().map(fits).take_while(|fits| *fits).count();
        let more = page.remaining > 0 || count < page.objects.len();
        page.objects.truncate(count);
        page.objects.shrink_to_fit();
        self.after = page.objects.last().filter(|_| more).map(|last| last.key.clone());
        self.stretch = page.objects.into_iter();
    }
}

fn page(core: &Core, call: &Call, after: Option<&ObjectKey>, at: Option<u64>) -> Result<Page, Gone> {
    core.store.stretch(&call.info().table, call.namespace.as_deref(), after, at, OBJECTS_MAX)
}
