//! What becomes of every mixture of good, spoilt and missing parts.

use serde::Deserialize;

use super::found::{Bad, Found};
use super::label::Label;
use super::*;
use crate::id::{Snapshot, Volume};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Thing {
    version: u32,
    text: String,
}

impl Record for Thing {
    const VERSION: u32 = 2;
    const IMAGE: Option<&'static str> = Some("image");

    fn version(&self) -> u32 {
        self.version
    }

    fn has_image(&self) -> bool {
        true
    }

    fn rebuilt(self, image: Image) -> Self {
        Self { text: format!("{} with{} data", self.text, if image.has_data { "" } else { "out" }), ..self }
    }
}

fn thing(text: &str) -> Thing {
    Thing { version: 2, text: text.into() }
}

fn label(kind: &str, id: &str) -> Read<Label<Thing>> {
    Read::Good(Label { kind: kind.into(), id: id.into(), record: thing("label") })
}

fn garbled<T>() -> Read<T> {
    Read::Bad(Bad::Garbled("EOF".into()))
}

#[test]
fn verdicts() {
    let image = |has_data| Some(Image { length: 8, has_data });
    let good = || Read::Good(thing("record"));
    let quarantine = |why: &str| Verdict::Quarantine(Spoilt { why: why.into(), lost: true });
    let untouchable = |why: &str| Verdict::Quarantine(Spoilt { why: why.into(), lost: false });
    let table = [
        ("all is well", good(), image(true), label("volume", "v"), Verdict::Keep(thing("record"))),
        ("no label", good(), image(true), Read::Missing, Verdict::Keep(thing("record"))),
        ("no image", good(), None, Read::Missing, Verdict::Keep(thing("record"))),
        ("nothing", Read::Missing, None, Read::Missing, Verdict::Nothing),
        (
            "record missing",
            Read::Missing,
            image(true),
            label("volume", "v"),
            Verdict::Rebuild(thing("label with data")),
        ),
        (
            "record spoilt",
            garbled(),
            image(false),
            label("volume", "v"),
            Verdict::Rebuild(thing("label without data")),
        ),
        (
            "image of another volume",
            Read::Missing,
            image(true),
            label("volume", "w"),
            quarantine("its record is missing, and its image belongs to volume `w`"),
        ),
        (
            "image of a snapshot",
            garbled(),
            image(true),
            label("snapshot", "v"),
            quarantine("its record is spoilt (EOF), and its image belongs to snapshot `v`"),
        ),
        (
            "neither record nor label",
            Read::Missing,
            image(true),
            Read::Missing,
            quarantine("its record is missing, and its image carries no label"),
        ),
        (
            "both spoilt",
            garbled(),
            image(true),
            garbled(),
            quarantine("its record is spoilt (EOF), and its image's label is spoilt (EOF)"),
        ),
        (
            "label of another layout",
            Read::Missing,
            image(true),
            Read::Bad(Bad::Layout(9)),
            quarantine(
                "its record is missing, and its image's label has layout 9, which this version does not know",
            ),
        ),
        ("spoilt and nothing else", garbled(), None, Read::Missing, quarantine("its record is spoilt (EOF)")),
        (
            "record of another layout",
            Read::Bad(Bad::Layout(3)),
            image(true),
            label("volume", "v"),
            untouchable("its record has layout 3, which this version does not know"),
        ),
        (
            "record on a bad sector",
            Read::Bad(Bad::Unreadable("EIO".into())),
            image(true),
            label("volume", "v"),
            untouchable("its record cannot be read (EIO)"),
        ),
    ];
    let id = Id::<Volume>::for_name("v");
    for (name, record, image, label, expected) in table {
        assert_eq!(verdict::judge(&id, Found { record, image, label }), expected, "{name}");
    }
}

#[test]
fn labels_read_as_written() {
    let id = Id::<Snapshot>::for_name("s");
    let bytes = label::encode(&id, &thing("text")).unwrap();
    let read = Label::<Thing>::parse(&bytes).unwrap();
    assert!(read.names(&id) && !read.names(&Id::<Volume>::for_name("s")));
    assert_eq!(read.record, thing("text"));

    let newer = String::from_utf8(bytes.clone()).unwrap().replace("\"version\":2", "\"version\":3");
    assert_eq!(Label::<Thing>::parse(newer.as_bytes()), Err(Bad::Layout(3)));
    for spoilt in [&b""[..], &bytes[..bytes.len() / 2], b"{}", b"null", b"\0\0\0"] {
        assert!(matches!(Label::<Thing>::parse(spoilt), Err(Bad::Garbled(_))), "{spoilt:?}");
    }
}

/// One attribute block of ext4 holds it, or it is refused before anything is made.
#[test]
fn a_label_is_small() {
    let id = Id::<Volume>::for_name("v");
    assert!(label::encode(&id, &thing(&"x".repeat(3000))).unwrap().len() < 4096 - 100);
    let refused = label::encode(&id, &thing(&"x".repeat(4000))).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn counts_follow_the_records() {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    struct Counted {
        names: Vec<String>,
    }
    impl Record for Counted {
        const VERSION: u32 = 1;

        fn version(&self) -> u32 {
            1
        }

        fn counted(&self) -> impl Iterator<Item = &str> {
            self.names.iter().map(String::as_str)
        }
    }
    let (host, _machine) = bowline_host::fake::host(1);
    let shelf = Shelf::<Volume, Counted>::open(host, "/var/lib/shelf".into()).await.unwrap();
    let put = async |id: &str, names: &[&str]| {
        let id = Id::for_name(id);
        shelf.make_dir(&id).await.unwrap();
        let names = names.iter().map(ToString::to_string).collect();
        shelf.put(&id, Counted { names }).await.unwrap();
        (shelf.count("n1"), shelf.count("n2"))
    };
    assert_eq!(put("a", &["n1"]).await, (1, 0));
    assert_eq!(put("b", &["n1", "n2"]).await, (2, 1));
    assert_eq!(put("b", &["n1", "n2"]).await, (2, 1), "written again");
    assert_eq!(put("a", &[]).await, (1, 1));
    shelf.forget(&Id::for_name("b")).await.unwrap();
    assert_eq!((shelf.count("n1"), shelf.count("n2")), (0, 0));
}
