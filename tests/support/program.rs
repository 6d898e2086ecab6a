//! Programs of our binary as processes of their own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process of our binary. Killed when it is dropped; its log is shown if the test fails.
pub struct Program {
    pub name: String,
    pub log: PathBuf,
    child: Child,
}

impl Program {
    pub fn start(dir: &Path, name: &str, program: impl AsRef<Path>, words: &[&str]) -> Self {
        let log = dir.join(format!("{name}.log"));
        let out = std::fs::File::create(&log).expect("a log");
        let child = Command::new(program.as_ref())
            .args(words)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()
            .expect("the program starts");
        Self { name: name.into(), log, child }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Ends with SIGTERM; says how.
    pub fn end(&mut self) -> std::process::ExitStatus {
        let terminated = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        assert!(terminated.expect("kill runs").success());
        self.child.wait().expect("it ends")
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<&str> = text.lines().rev().take(12).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            let _ = writeln!(std::io::stderr(), "--- {} ---\n{}", self.name, last.join("\n"));
        }
    }
}
