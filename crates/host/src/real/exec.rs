//! Runs a program in a container: the side that stays outside.

use std::io;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::sealed::Sealed;
use super::shim::EXEC_SUBCOMMAND;
use super::terminal::{self, Screen};
use crate::containers::{ExecSpec, SIGNALLED, Session};

/// Starts a helper that becomes the parent of a program in the container whose record is in `dir`.
pub(super) fn start(helper: &Sealed, dir: &Path, spec: &ExecSpec) -> io::Result<Session> {
    let mut command = Command::from(helper.command()?);
    // Whatever follows the dashes is the program's, even if it looks like an option of the helper.
    let caller = std::process::id().to_string();
    command.arg(EXEC_SUBCOMMAND).arg(dir).arg(caller).arg("--").args(&spec.argv);
    command.current_dir("/").env_clear();
    if spec.tty { on_terminal(command, spec.stdin) } else { on_pipes(command, spec.stdin) }
}

fn on_pipes(mut command: Command, stdin: bool) -> io::Result<Session> {
    // A pipe also when nothing will be written: root in a container could change the mode of the host's `/dev/null`.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut helper = Helper(command.spawn()?);
    let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
    let input = helper.0.stdin.take().filter(|_| stdin);
    Ok(Session {
        stdin: input.map(|pipe| Box::new(pipe) as _),
        stdout: Box::new(helper.0.stdout.take().ok_or_else(missing)?),
        stderr: Some(Box::new(helper.0.stderr.take().ok_or_else(missing)?)),
        terminal: None,
        ended: Box::pin(end(helper)),
    })
}

fn on_terminal(mut command: Command, stdin: bool) -> io::Result<Session> {
    let (outer, inner) = terminal::pair()?;
    command.stdin(inner.try_clone()?).stdout(inner.try_clone()?).stderr(inner);
    let helper = Helper(command.spawn()?);
    // This side's copies of the terminal's other end go with the command; the end of the program is then the end.
    drop(command);
    let screen = Screen::new(outer)?;
    Ok(Session {
        stdin: stdin.then(|| Box::new(screen.clone()) as _),
        stdout: Box::new(screen.clone()),
        stderr: None,
        terminal: Some(Box::new(screen)),
        ended: Box::pin(end(helper)),
    })
}

async fn end(helper: Helper) -> io::Result<i32> {
    use std::os::unix::process::ExitStatusExt;
    let mut helper = helper;
    let status = helper.0.wait().await?;
    Ok(status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default()))
}

/// Asked to end the program with all that it started, when nobody waits for it any more.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        // One that has ended has no number any more; until then nobody else can get it.
        let pid = self.0.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(Err(errno)) = pid.map(|pid| kill_process(pid, Signal::TERM)) {
            tracing::warn!(%errno, "end a program in a container");
        }
    }
}
