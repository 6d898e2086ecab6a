//! What observes only reads: the first call on each path from `self` is listed here as a read, or stands in a file that is
//! checked, too. A new name is thereby looked at by a person once, and a write cannot slip in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{is_test, production_lines, report, root, sources};

const ROLES: &str = "crates/roles/src";

/// Reads by their name alone: of caches and watched objects, clocks, the API server, and plain values.
const READS: [&str; 13] = [
    "clone",
    "get",
    "get_live",
    "indexed",
    "indexed_len",
    "is_empty",
    "is_none",
    "list",
    "list_labelled",
    "list_live",
    "named",
    "now",
    "uptime",
];

/// Reads of what a role remembers or shares, by field and name.
const MEMORIES: &[&str] = &[
    "absent.contains",
    "assumed.on",
    "assumed.pods",
    "in_use.accepted",
    "in_use.contains",
    "in_use.lists",
    "live.users",
    "local.left",
    "local.with",
    "memory.answer",
    "memory.asked",
    "memory.claim",
    "memory.clone_of",
    "memory.deleted",
    "memory.due",
    "memory.generation",
    "memory.handed_on",
    "memory.in_use_when_gone",
    "memory.intents_read",
    "memory.is_failed",
    "memory.knows",
    "memory.lease",
    "memory.lease_age",
    "memory.listed",
    "memory.may_protect",
    "memory.not_ready_since",
    "memory.noted",
    "memory.offered",
    "memory.plugin",
    "memory.reading",
    "memory.restore_of",
    "memory.rival_versions",
    "memory.status_age",
    "memory.unanswered",
    "mounts.left",
    "mounts.mounted_volumes",
    "mounts.ready",
    "mounts.rejected",
    "mounts.resolve",
    "promises.to_another",
    "reports.of",
    "self.force_after",
    "shared.complete",
    "shared.kinds",
    "shared.look",
    "stats.due",
    "stats.shows",
    "switch.is_off",
    "tenants.counted",
    "tenants.evicting",
    "tenants.inside",
    "tried.times",
];

/// Writes, whatever they are called on.
const WRITES: [&str; 20] = [
    ".add(",
    ".create(",
    ".delete(",
    ".follow(",
    ".forget(",
    ".lock()",
    ".note(",
    ".note_deletion(",
    ".note_gone(",
    ".patch(",
    ".post(",
    ".read_through(",
    ".replace(",
    ".send(",
    ".store(",
    ".swap(",
    "Mutex",
    "queue",
    "recorder",
    "spawn",
];

#[test]
fn what_observes_only_reads() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (role, files) in observing() {
        let texts: Vec<(PathBuf, String)> =
            files.into_iter().map(|file| (file.clone(), flat(&read(&file)))).collect();
        let known: BTreeSet<&str> = texts.iter().flat_map(|(_, text)| functions(text)).collect();
        let observe = role.join("role.rs");
        let body = flat(&body_of_observe(&read(&observe)));
        assert!(!body.is_empty(), "no `observe` in {}", observe.display());
        checked += 1;
        for (file, text) in texts.iter().chain([&(observe, body)]) {
            wrong.extend(writes(text, &known).iter().map(|call| format!("{}: `{call}`", file.display())));
        }
    }
    assert!(checked >= 16, "only {checked} roles were found");
    report("what observes writes, or calls what is not known to read", wrong);
}

/// The folders of roles, each with the files that observe.
fn observing() -> Vec<(PathBuf, Vec<PathBuf>)> {
    let all: Vec<PathBuf> = sources(&root().join(ROLES)).into_iter().filter(|path| !is_test(path)).collect();
    let observe = |path: &&PathBuf| path.file_name().is_some_and(|name| name == "observe.rs");
    let folders = all.iter().filter(observe).filter_map(|path| path.parent().map(Path::to_owned));
    let files = |role: &Path| -> Vec<PathBuf> {
        let of =
            |path: &&PathBuf| **path == role.join("observe.rs") || path.starts_with(role.join("observe"));
        all.iter().filter(of).cloned().collect()
    };
    folders.map(|role| (role.clone(), files(&role))).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Production code in one line, so that a path of calls is in one piece.
fn flat(text: &str) -> String {
    let mut flat = String::new();
    for (_, line) in production_lines(text) {
        let line = line.trim();
        if !line.starts_with('.') {
            flat.push(' ');
        }
        flat.push_str(line);
    }
    flat
}

/// What stands in `async fn observe` of a role.
fn body_of_observe(text: &str) -> String {
    let from = text.lines().skip_while(|line| !line.trim_start().starts_with("async fn observe(")).skip(1);
    from.take_while(|line| *line != "    }").collect::<Vec<_>>().join("\n")
}

/// Names of the functions that a text defines.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split(" fn ").skip(1).map(word)
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Calls that write, or that are neither listed nor `known`.
fn writes(text: &str, known: &BTreeSet<&str>) -> Vec<String> {
    let named = WRITES.iter().filter(|word| text.contains(**word)).map(|word| (*word).to_owned());
    let listed = |(on, name): &(String, String)| {
        READS.contains(&name.as_str())
            || MEMORIES.contains(&format!("{on}.{name}").as_str())
            || (on == "self" && known.contains(name.as_str()))
    };
    let unknown =
        calls(text).into_iter().filter(|call| !listed(call)).map(|(on, name)| format!("{on}.{name}"));
    named.chain(unknown).chain(passed_on(text).map(str::to_owned)).collect()
}

/// The first call on each path that begins with `self`: what it is called on, and its name.
fn calls(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (_, mut rest) in selves(text) {
        let mut on = "self";
        while let Some(after) = rest.strip_prefix('.') {
            let name = word(after);
            rest = &after[name.len()..];
            if rest.starts_with('(') || rest.starts_with("::<") {
                found.push((on.to_owned(), name.to_owned()));
                break;
            }
            on = name;
        }
    }
    found
}

/// Places where a function other than a method gets all of `self`.
fn passed_on(text: &str) -> impl Iterator<Item = &'static str> {
    let receiver = |before: &str| {
        let (head, by) = before.rsplit_once('(').unwrap_or_default();
        let name = head.rsplit_once(" fn ").map(|(_, name)| name);
        matches!(by.trim(), "" | "&" | "&mut" | "mut")
            && name.is_some_and(|name| !name.contains(['(', '{', ';']))
    };
    let whole =
        selves(text).filter(move |(before, after)| after.starts_with([',', ')']) && !receiver(before));
    whole.map(|_| "self is passed on")
}

/// What stands before and after each `self`.
fn selves(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let places = text.match_indices("self").map(|(at, found)| (&text[..at], &text[at + found.len()..]));
    // `use module::{self, …}` is none.
    places.filter(move |(before, after)| {
        !before.ends_with(part) && !before.ends_with('{') && !after.starts_with(part)
    })
}

#[test]
fn a_write_is_seen() {
    let check = |text: &str| writes(&flat(text), &BTreeSet::from(["see_node"]));
    let none: [&str; 0] = [];
    assert_eq!(check("pub(super) fn see(&self, key: &str) {\n self.pods\n .get(key)\n .map(|p| p)\n}"), none);
    assert_eq!(check(" fn see<'a>(&self) { self.see_node(&self.pods); self.memory.due(driver) }"), none);
    assert_eq!(check("use super::payload::{self, Files};"), none);
    assert_eq!(check("self.memory.expect(volume)"), ["memory.expect"]);
    assert_eq!(check("self\n.memory\n.update(volume, |v| v.told = None)"), ["memory.update"]);
    assert_eq!(check("self.read_back().await?;"), ["self.read_back"]);
    assert_eq!(check("self.shared.graph().put(node)"), ["shared.graph"]);
    assert_eq!(check("self.ports.informers.of::<Node>().named(name)"), ["informers.of"]);
    assert_eq!(check("cache.note(pod);"), [".note("]);
    assert_eq!(check("remember(self, volume)"), ["self is passed on"]);
    assert_eq!(check("remember(&volume, self)"), ["self is passed on"]);
}

#[test]
fn the_body_of_observe_is_found() {
    let role = "    async fn observe(&self) -> X {\n        self.remember();\n    }\n    fn decide() {}\n";
    assert_eq!(body_of_observe(role).trim(), "self.remember();");
    assert_eq!(functions(" fn a() {} pub fn b<'a>(x) {}").collect::<Vec<_>>(), ["a", "b"]);
}
