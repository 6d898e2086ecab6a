//! Does what was decided, one effect after the other, and stops at the first that fails.

use bowline_host::Host;

use super::decide::{Effect, Proposal};
use super::report::{Finding, Repair};
use crate::error::{During, VolumeError, chain};
use crate::shelf::label::LABEL;
use crate::shelf::{DIR_MODE, FILE_MODE};

pub async fn act(host: &Host, proposal: Proposal) -> Finding {
    let Proposal { mut finding, effects } = proposal;
    if effects.is_empty() {
        return finding;
    }
    finding.repair = Repair::Done;
    for effect in effects {
        host.failpoints.hit("local.check.before-repair");
        if let Err(error) = perform(host, effect).await {
            (finding.repair, finding.error) = (Repair::Failed, Some(chain(&error)));
            break;
        }
    }
    finding
}

async fn perform(host: &Host, effect: Effect) -> Result<(), VolumeError> {
    let disk = &host.disk;
    match effect {
        Effect::MakeDir(path) => disk.create_dir_all(&path, DIR_MODE).await.during("create directory"),
        Effect::WriteRecord { path, bytes } => {
            disk.write_atomic(&path, &bytes, FILE_MODE).await.during("write record")
        }
        Effect::SetLabel { path, bytes } => disk.set_label(&path, LABEL, &bytes).await.during("label image"),
        Effect::RemoveFile(path) => disk.remove_file(&path).await.during("remove file"),
        Effect::RemoveDir(path) => disk.remove_dir(&path).await.during("remove directory"),
        Effect::Detach { device, image } => {
            host.kernel.loop_release(&device, &image).await.during("detach loop device")
        }
    }
}
