//! Runs the commands of a theme, each in a shell of its own, against one server.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::normalise::normalise;
use crate::script::{Answer, Step};
use crate::support::apiserver::ApiServer;
use crate::support::peers::peer;

/// Longest a command may take on a loaded machine.
const STEP_PATIENCE: Duration = Duration::from_secs(30);

/// Where scripts, manifests and recordings are.
pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kubectl"))
}

/// Runs a theme's commands in a namespace called like the theme.
pub fn run(theme: &str, commands: &[String], server: &ApiServer) -> Vec<Step> {
    let shell = Shell::prepare(theme, server);
    let step = |command: &String| Step { command: command.clone(), answer: shell.answer(command) };
    commands.iter().map(step).collect()
}

struct Shell<'a> {
    server: &'a ApiServer,
    path: String,
}

impl<'a> Shell<'a> {
    fn prepare(theme: &str, server: &'a ApiServer) -> Self {
        let programs = server.scratch.path().join("bin");
        std::fs::create_dir(&programs).expect("a folder for kubectl");
        std::fs::create_dir(server.scratch.path().join("tmp")).expect("a folder for kubectl's files");
        let kubectl = std::fs::canonicalize(peer("kubectl")).expect("kubectl");
        std::os::unix::fs::symlink(kubectl, programs.join("kubectl")).expect("kubectl by its plain name");
        let inherited = std::env::var("PATH").expect("a PATH");
        let path = format!("{}:{}:{inherited}", programs.display(), folder().join("bin").display());
        let shell = Self { server, path };
        shell.ready(&format!("kubectl create namespace {theme}"));
        shell.ready(&format!("kubectl config set-context --current --namespace={theme}"));
        // A controller would make it; pods need it.
        shell.ready("kubectl create serviceaccount default");
        shell
    }

    /// Something every theme starts with; that it is there already is as good.
    fn ready(&self, command: &str) {
        let answer = self.run(command);
        let there = answer.err.contains("already exists");
        assert!(answer.code == Some(0) || there, "{command}: {}{}", answer.out, answer.err);
    }

    fn answer(&self, command: &str) -> Vec<String> {
        let mut answer = self.run(command);
        for text in [&mut answer.out, &mut answer.err] {
            *text = normalise(command, text, self.server.scratch.path());
        }
        answer.lines()
    }

    fn run(&self, command: &str) -> Answer {
        let scratch = self.server.scratch.path();
        let at = |name: &str| scratch.join(name);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).current_dir(folder().join("manifests"));
        shell.env_clear().env("PATH", &self.path).env("LC_ALL", "C").env("TZ", "UTC");
        // A kubectl lives too briefly for its garbage to matter.
        shell.env("GOGC", "off");
        shell.env("HOME", scratch).env("TMPDIR", at("tmp")).env("KUBECACHEDIR", at("cache"));
        shell.env("KUBECONFIG", &self.server.kubeconfig);
        shell.env("SNAPSHOT_CRDS", peer("snapshot-crds"));
        shell.stdin(Stdio::null()).stdout(file(&at("out"))).stderr(file(&at("err")));
        // A group of its own, so that what it started can be ended with it.
        let code = wait(shell.process_group(0).spawn().expect("start a shell"));
        let text = |name: &str| String::from_utf8_lossy(&std::fs::read(at(name)).expect(name)).into_owned();
        Answer { out: text("out"), err: text("err"), code }
    }
}

/// A file rather than a pipe: it never blocks the writer, and a process left behind does not hold us up.
fn file(path: &Path) -> std::fs::File {
    std::fs::File::create(path).expect("a file for the answer")
}

/// Its exit code, or none if it had to be ended.
fn wait(mut child: Child) -> Option<i32> {
    let patience = Instant::now() + STEP_PATIENCE;
    while Instant::now() < patience {
        if let Some(status) = child.try_wait().expect("state of the shell") {
            return Some(status.code().unwrap_or(-1));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = Pid::from_raw(child.id() as i32).expect("a process id");
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    None
}
