//! Programs that are run in a container beside its own.

use std::time::Duration;

use bowline_host::containers::{ContainerSpec, ExecSpec, Session, State};
use nix::libc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::world::{World, errno};

const PATIENCE: Duration = Duration::from_secs(20);

async fn started(world: &World) -> ContainerSpec {
    let mut spec = world.script("uid/main/0", "sleep 1000");
    spec.env = vec![("A".into(), "b c".into())];
    spec.working_dir = Some("/run".into());
    let state = world.host.containers.start(&spec).await.unwrap();
    assert!(matches!(state, State::Running { .. }), "{state:?}");
    spec
}

/// What a script says that is run in a container.
pub async fn said(world: &World, id: &str, script: &str) -> String {
    let argv = ["/bin/sh", "-c", script].map(Into::into).into();
    let spec = ExecSpec { argv, stdin: false, tty: false };
    let (code, out, err) = outcome(world.host.containers.exec(id, &spec).await.unwrap(), b"").await;
    format!("{out}{err}{}", if code == 0 { String::new() } else { format!("exit {code}\n") })
}

async fn session(world: &World, script: &str, stdin: bool, tty: bool) -> Session {
    let argv = ["/bin/sh", "-c", script].map(Into::into).into();
    world.host.containers.exec("uid/main/0", &ExecSpec { argv, stdin, tty }).await.unwrap()
}

/// Exit code, standard output, standard error.
pub async fn outcome(mut session: Session, input: &[u8]) -> (i32, String, String) {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let talk = async {
        if let Some(mut stdin) = session.stdin.take() {
            stdin.write_all(input).await.unwrap();
            stdin.shutdown().await.unwrap();
        }
        session.stdout.read_to_string(&mut stdout).await.unwrap();
        if let Some(mut pipe) = session.stderr {
            pipe.read_to_string(&mut stderr).await.unwrap();
        }
        session.ended.await.unwrap()
    };
    let code = timeout(PATIENCE, talk).await.unwrap();
    (code, stdout, stderr)
}

#[tokio::test]
async fn a_program_inside() {
    let world = World::new();
    let spec = started(&world).await;
    let script = "echo $(hostname) $(pwd) $A; echo 1 2>/dev/null >/x || echo read-only; tr '\\0' ' ' </proc/1/cmdline | grep -c container-init; echo err >&2; exit 7";
    let (code, out, err) = outcome(session(&world, script, false, false).await, b"").await;
    assert_eq!((code, out.as_str(), err.as_str()), (7, "pod-0 /run b c\nread-only\n1\n", "err\n"));
    let (code, out, _) = outcome(session(&world, "cat; kill -9 $$", true, false).await, b"in\nand out").await;
    assert_eq!((code, out.as_str()), (137, "in\nand out"));
    let capabilities =
        session(&world, "mount -t tmpfs none /tmp 2>/dev/null || echo refused", false, false).await;
    assert_eq!(outcome(capabilities, b"").await.1, "refused\n");

    let missing = ExecSpec { argv: vec!["nosuch".into()], stdin: false, tty: false };
    let (code, _, err) = outcome(world.host.containers.exec(&spec.id, &missing).await.unwrap(), b"").await;
    assert_eq!((code, err.as_str()), (127, "exec \"nosuch\": no such file or directory\n"));
    end(&world, &spec).await;
    let late = world.host.containers.exec(&spec.id, &missing).await;
    assert_eq!(errno(&late.err().unwrap()), libc::ESRCH);
}

pub async fn end(world: &World, spec: &ContainerSpec) {
    world.host.containers.signal(&spec.id, libc::SIGKILL).await.unwrap();
    timeout(PATIENCE, world.host.containers.wait(&spec.id)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_terminal() {
    let world = World::new();
    let spec = started(&world).await;
    let script = "until [ \"$(stty size)\" = '30 100' ]; do sleep 0.01; done; stty size; read line; test -t 0 && echo \"$TERM got $line\"; exit 3";
    let mut shell = session(&world, script, true, true).await;
    shell.terminal.as_ref().unwrap().resize(100, 30).unwrap();
    assert!(shell.stderr.is_none());
    let mut stdin = shell.stdin.take().unwrap();
    stdin.write_all(b"word\n").await.unwrap();
    let (code, out, _) = outcome(shell, b"").await;
    assert_eq!(code, 3);
    assert!(out.contains("30 100\r\n"), "{out:?}");
    assert!(out.ends_with("xterm got word\r\n"), "{out:?}");
    end(&world, &spec).await;
}

#[tokio::test]
async fn nobody_waits_nobody_runs() {
    let world = World::new();
    let spec = started(&world).await;
    let mut sleeper =
        session(&world, "sleep 12345 & (sleep 12345 & echo up); sleep 12345", false, false).await;
    let mut line = [0; 3];
    timeout(PATIENCE, sleeper.stdout.read_exact(&mut line)).await.unwrap().unwrap();
    drop(sleeper);
    let gone = async {
        let count = "grep -l 1234[5] /proc/[0-9]*/cmdline 2>/dev/null | grep -v $$ | wc -l";
        while outcome(session(&world, count, false, false).await, b"").await.1 != "0\n" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
    end(&world, &spec).await;
}
