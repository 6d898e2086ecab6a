//! The decision table.

use bowline_proto::csi::v1::VolumeHealthErrorType::{DataLoss, Degraded, Inaccessible};

use super::condition;
use super::judge::{Facts, Filesystem, Image, judge};
use crate::id::VolumeId;

fn well() -> Facts {
    Facts { capacity: 100, image: Image::Bytes(100), attached: true, taken: None, filesystem: None }
}

fn mounted(errors: u64, refuses_writes: bool) -> Facts {
    Facts { filesystem: Some(Filesystem { errors, refuses_writes }), ..well() }
}

#[test]
fn facts_judged() {
    let image = |image| Facts { image, ..well() };
    let detached = Facts { attached: false, ..well() };
    let both = Facts { attached: false, image: Image::Missing, ..well() };
    let table = [
        ("in use", well(), true, vec![]),
        ("attached behind our back", well(), false, vec![]),
        ("not in use", detached.clone(), false, vec![]),
        ("larger than need be", image(Image::Bytes(200)), true, vec![]),
        ("image missing", image(Image::Missing), true, vec![(DataLoss, "ImageMissing")]),
        ("image truncated", image(Image::Bytes(99)), true, vec![(DataLoss, "ImageTruncated")]),
        ("half made", image(Image::Unfinished), true, vec![]),
        ("device vanished", detached, true, vec![(Inaccessible, "DeviceVanished")]),
        ("all gone", both, true, vec![(DataLoss, "ImageMissing"), (Inaccessible, "DeviceVanished")]),
        ("mounted", mounted(0, false), true, vec![]),
        ("errors", mounted(3, false), true, vec![(Degraded, "FilesystemErrors")]),
        ("read-only", mounted(0, true), true, vec![(Degraded, "FilesystemReadOnly")]),
        (
            "both",
            mounted(1, true),
            true,
            vec![(Degraded, "FilesystemErrors"), (Degraded, "FilesystemReadOnly")],
        ),
    ];
    let id = VolumeId::for_name("v");
    for (name, facts, was_attached, expected) in table {
        let findings = judge(&id, &facts, was_attached);
        let found: Vec<_> = findings.iter().map(|finding| (finding.status, finding.reason)).collect();
        assert_eq!(found, expected, "{name}");
        assert!(findings.iter().all(|finding| finding.message.contains("`v`")), "{name}: {findings:?}");
        assert_eq!(condition(&findings).abnormal, !expected.is_empty(), "{name}");
        assert!(!condition(&findings).message.is_empty(), "{name}: CSI requires a message");
    }
}
