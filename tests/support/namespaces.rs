//! Mount and process namespaces of their own for the programs of a node: what they mount is seen by them alone, and all of
//! them end together, also when the test is killed.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::program::Program;
use super::{PATIENCE, until_exists};

/// The first process: ends with its standard input, and the kernel ends all others then. It stays a shell, which reaps.
/// Paths that programs have built in are empty file systems here, so that the machine's own are left alone. Settings of the
/// kernel that a kubelet changes are files here. Copies of other tests' volumes are unmounted first: they would keep the
/// devices of these busy.
const FIRST_PROCESS: &str = r#"
set -e
grep ' - [^ ]* /dev/loop' /proc/self/mountinfo | cut -d ' ' -f 5 | while read -r volume; do umount -l "$volume" || true; done
mount --make-rshared /
for folder in /run /var/log /var/lib; do mount -t tmpfs tmpfs $folder; done
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    mkdir -p $1/sysctl/$(dirname $setting)
    cat /proc/sys/$setting > $1/sysctl/$setting
    mount --bind $1/sysctl/$setting /proc/sys/$setting
done
touch $1/namespaces-are-ready
cat > /dev/null
exit 0
"#;

pub struct Namespaces {
    /// In the new mount namespace; its children are in the new process namespace.
    outside: Child,
}

impl Namespaces {
    pub async fn start(dir: &Path) -> Self {
        let log = std::fs::File::create(dir.join("namespaces.log")).expect("a log");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]);
        command.args(["sh", "-c", FIRST_PROCESS, "sh"]).arg(dir);
        let outside = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn();
        let namespaces = Self { outside: outside.expect("unshare runs") };
        until_exists(&dir.join("namespaces-are-ready")).await;
        namespaces
    }

    /// A process whose mount table is the one in here.
    pub fn pid(&self) -> u32 {
        self.outside.id()
    }

    /// `nsenter` and what leads it in here, before a program and its words.
    fn entry(&self) -> [String; 2] {
        let pid = self.pid();
        [format!("--mount=/proc/{pid}/ns/mnt"), format!("--pid=/proc/{pid}/ns/pid_for_children")]
    }

    /// Starts a program in here. It ends with the namespaces, not with the value that is returned.
    pub fn program(
        &self,
        dir: &Path,
        name: &str,
        program: impl AsRef<Path>,
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Program {
        let program = program.as_ref().to_str().expect("text").to_owned();
        let mut all = self.entry().to_vec();
        all.extend(["--".to_owned(), program]);
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        Program::start_with(dir, name, "nsenter", &all, environment)
    }

    /// Runs a program in here to its end and returns what it wrote.
    pub fn run(&self, program: impl AsRef<Path>, words: &[&str]) -> String {
        let mut command = Command::new("nsenter");
        command.args(self.entry()).arg("--").arg(program.as_ref()).args(words);
        let output = command.stdin(Stdio::null()).output().expect("nsenter runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?} {words:?}: {errors}", program.as_ref());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        drop(self.outside.stdin.take());
        let patience = Instant::now() + PATIENCE;
        while matches!(self.outside.try_wait(), Ok(None)) {
            if Instant::now() > patience {
                let _ = writeln!(std::io::stderr(), "processes of the node do not end in time");
                let _ = self.outside.kill();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
