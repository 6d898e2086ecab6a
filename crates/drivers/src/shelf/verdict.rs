//! What becomes of a directory of a shelf. No I/O, so it is a table in `shelf/tests.rs`.

use super::Record;
use super::found::{Bad, Found, Read};
use crate::id::{Id, Kind};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<R> {
    /// The record is good.
    Keep(R),
    /// The record is lost; the image says what it was.
    Rebuild(R),
    /// It answers every call with this reason, and nothing of it is touched.
    Quarantine(Spoilt),
    /// Neither record nor image: creation died before its first write, or deletion after its last.
    Nothing,
}

/// Why something cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoilt {
    pub why: String,
    /// Whether the record is gone for good. Otherwise it is there for somebody else: a newer version of this
    /// program, or this one when the disk is well again.
    pub lost: bool,
}

pub fn judge<K: Kind, R: Record>(id: &Id<K>, found: Found<R>) -> Verdict<R> {
    let lost = match found.record {
        Read::Good(record) => return Verdict::Keep(record),
        // The label says less than a record of another version, and writing it back would destroy that one.
        Read::Bad(bad @ (Bad::Layout(_) | Bad::Unreadable(_))) => {
            return Verdict::Quarantine(Spoilt { why: describe("record", &bad), lost: false });
        }
        Read::Missing if found.image.is_none() => return Verdict::Nothing,
        Read::Missing => "its record is missing".to_owned(),
        Read::Bad(bad @ Bad::Garbled(_)) => describe("record", &bad),
    };
    let quarantine = |why| Verdict::Quarantine(Spoilt { why, lost: true });
    let Some(image) = found.image else { return quarantine(lost) };
    match found.label {
        Read::Good(label) if label.names(id) => Verdict::Rebuild(label.record.rebuilt(image)),
        Read::Good(label) => {
            quarantine(format!("{lost}, and its image belongs to {} `{}`", label.kind, label.id))
        }
        Read::Bad(bad) => quarantine(format!("{lost}, and {}", describe("image's label", &bad))),
        Read::Missing => quarantine(format!("{lost}, and its image carries no label")),
    }
}

/// Why a part cannot be used, as part of a sentence.
pub fn describe(part: &str, bad: &Bad) -> String {
    match bad {
        Bad::Garbled(why) => format!("its {part} is spoilt ({why})"),
        Bad::Layout(version) => format!("its {part} has layout {version}, which this version does not know"),
        Bad::Unreadable(why) => format!("its {part} cannot be read ({why})"),
    }
}
