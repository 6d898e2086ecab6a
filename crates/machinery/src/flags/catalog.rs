//! All flags that a program knows: its own, as clap declares them, and upstream's without a part in this program.

use std::any::TypeId;
use std::collections::BTreeMap;

use clap::{ArgAction, Command};

use super::upstream::{Class, Flag, Kind};

/// Flags that every program has and none declares.
pub(super) const HELP: &str = "help";
pub(super) const VERSION: &str = "version";
/// The value of `--version` that is no boolean; the sidecars do not have it.
pub(super) const RAW: &str = "raw";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub boolean: bool,
    short: Option<char>,
    pub part: Part,
}

/// What becomes of a flag that is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// `--help` and `--version`.
    Builtin,
    /// Handed to clap.
    Own { appends: bool, set_true: bool, has_default: bool },
    /// One of upstream's that this program does not declare.
    Upstream { kind: Kind, class: Class },
}

#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub program: String,
    entries: BTreeMap<String, Entry>,
}

impl Catalog {
    pub fn new(command: &Command, upstream: &[Flag], has_version: bool) -> Self {
        let mut entries = BTreeMap::new();
        for flag in upstream {
            let part = Part::Upstream { kind: flag.kind, class: flag.class.clone() };
            let boolean = flag.kind == Kind::Bool;
            entries.insert(flag.name.clone(), Entry { boolean, short: None, part });
        }
        for arg in command.get_arguments() {
            let Some(name) = arg.get_long() else { continue };
            let set_true = matches!(arg.get_action(), ArgAction::SetTrue);
            let boolean = set_true || arg.get_value_parser().type_id() == TypeId::of::<bool>();
            let appends = matches!(arg.get_action(), ArgAction::Append);
            let has_default = !arg.get_default_values().is_empty();
            let part = Part::Own { appends, set_true, has_default };
            entries.insert(name.to_owned(), Entry { boolean, short: arg.get_short(), part });
        }
        let builtin = |short| Entry { boolean: true, short, part: Part::Builtin };
        entries.insert(HELP.to_owned(), builtin(Some('h')));
        // Go's parser knows `-h` as a name of its own.
        entries.insert("h".to_owned(), builtin(None));
        if has_version {
            entries.insert(VERSION.to_owned(), builtin(None));
        }
        Self { program: command.get_name().to_owned(), entries }
    }

    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    pub fn short(&self, letter: char) -> Option<(&str, &Entry)> {
        let mut entries = self.entries.iter();
        entries.find(|(_, entry)| entry.short == Some(letter)).map(|(name, entry)| (name.as_str(), entry))
    }

    /// The known flag whose name differs least, if it is close enough to be what was meant.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        let close = (name.chars().count() / 3).max(2);
        let distances =
            self.entries.keys().map(|known| (strsim::damerau_levenshtein(known, name), known.as_str()));
        // A name as short as the allowed distance is close to everything.
        let near =
            distances.filter(|(distance, known)| *distance <= close && *distance < known.chars().count());
        near.min().map(|(_, known)| known)
    }
}
