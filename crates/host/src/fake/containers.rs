//! Containers of the fake machine: records that run until somebody ends them.

use std::path::Path;

use async_trait::async_trait;
use jiff::Timestamp;
use nix::errno::Errno;
use tokio::sync::watch;

use super::tree::FsId;
use super::{FakeHost, World};
use crate::Clock;
use crate::containers::{
    ContainerSpec, Containers, ExecSpec, Exit, Found, SIGNALLED, START_ERROR, Session, State,
};
use crate::kernel::{KernelError, Result};

/// What a program of the fake machine does when it is run in a container.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub takes: std::time::Duration,
    pub code: i32,
    pub output: String,
}

pub(super) struct Container {
    state: watch::Sender<State>,
    evicted: bool,
    pub earlier_boot: bool,
    /// Whether it does nothing when it is asked to end.
    pub stubborn: bool,
    /// What its program has left at `message_path`.
    pub message: Option<String>,
    /// What it was started with.
    pub spec: ContainerSpec,
    /// Filesystems its mount namespace keeps in use while it runs.
    uses: Vec<FsId>,
}

impl Container {
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub fn uses(&self, fs: FsId) -> bool {
        matches!(*self.state.borrow(), State::Running { .. }) && self.uses.contains(&fs)
    }
}

impl World {
    fn start(&mut self, spec: &ContainerSpec, now: Timestamp) -> State {
        let sources = || spec.mounts.iter().chain(&spec.devices).map(|binding| binding.source.as_path());
        let missing = sources().find(|source| !self.exists(source));
        let missing = missing.map(|source| format!("bind `{}`: no such file or directory", source.display()));
        let state = match spec.check().err().or(missing) {
            Some(error) => {
                let exit = Exit {
                    code: START_ERROR,
                    signal: None,
                    finished_at: now,
                    error: Some(error),
                    oom_killed: false,
                    message: None,
                };
                State::Exited { started_at: now, exit }
            }
            None => State::Running { pid: self.next_pid, started_at: now },
        };
        self.next_pid += 1;
        let uses = spec.mounts.iter().flat_map(|m| self.tree.table.below(&m.source)).collect();
        let container = Container {
            state: watch::Sender::new(state.clone()),
            evicted: false,
            earlier_boot: false,
            stubborn: false,
            message: None,
            spec: spec.clone(),
            uses,
        };
        self.containers.insert(spec.id.clone(), container);
        state
    }

    fn exists(&self, path: &Path) -> bool {
        let place = self.tree.follow(path).and_then(|path| self.tree.place(&path));
        place.is_ok_and(|place| self.tree.node(&place).is_some())
    }

    /// Ends a running container; one that has ended keeps its first exit.
    pub fn end_container(&mut self, id: &str, code: i32, error: Option<&str>, now: Timestamp) {
        self.end_as(id, code, error, false, now);
    }

    pub fn end_as(&mut self, id: &str, code: i32, error: Option<&str>, oom_killed: bool, now: Timestamp) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let message = container.message.take();
        let signal = (code > SIGNALLED).then_some(code - SIGNALLED);
        container.state.send_modify(|state| {
            if let State::Running { started_at, .. } = *state {
                let exit = Exit {
                    code,
                    signal,
                    finished_at: now,
                    error: error.map(Into::into),
                    oom_killed,
                    message,
                };
                *state = State::Exited { started_at, exit };
            }
        });
    }
}

#[async_trait]
impl Containers for FakeHost {
    async fn start(&self, spec: &ContainerSpec) -> Result<State> {
        let now = self.now();
        let mut world = self.world();
        world.check_kernel("start")?;
        match world.containers.get(&spec.id) {
            Some(container) => Ok(container.state()),
            None => Ok(world.start(spec, now)),
        }
    }

    async fn list(&self) -> Result<Vec<Found>> {
        let found = |(id, one): (&String, &Container)| Found {
            id: id.clone(),
            state: one.state(),
            evicted: one.evicted,
            earlier_boot: one.earlier_boot,
        };
        Ok(self.world().containers.iter().map(found).collect())
    }

    async fn state(&self, id: &str) -> Result<Option<State>> {
        Ok(self.world().containers.get(id).map(Container::state))
    }

    async fn wait(&self, id: &str) -> Result<Exit> {
        self.world().check_kernel("wait")?;
        let gone = || KernelError::errno(format!("wait for container `{id}`"), Errno::ENOENT as i32);
        let mut states = self.world().containers.get(id).ok_or_else(gone)?.state.subscribe();
        loop {
            if let State::Exited { exit, .. } = &*states.borrow_and_update() {
                return Ok(exit.clone());
            }
            states.changed().await.map_err(|_| gone())?;
        }
    }

    async fn mark_evicted(&self, id: &str) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("mark_evicted")?;
        let gone = || KernelError::errno(format!("mark container `{id}`"), Errno::ENOENT as i32);
        world.containers.get_mut(id).ok_or_else(gone)?.evicted = true;
        Ok(())
    }

    async fn signal(&self, id: &str, signal: i32) -> Result<()> {
        let now = self.now();
        let mut world = self.world();
        world.check_kernel("signal")?;
        let stubborn = world.containers.get(id).is_some_and(|container| container.stubborn);
        let ends = match signal {
            nix::libc::SIGKILL => true,
            nix::libc::SIGTERM | nix::libc::SIGINT => !stubborn,
            _ => false,
        };
        if ends {
            world.end_container(id, SIGNALLED + signal, None, now);
        }
        Ok(())
    }

    /// The fake machine has the programs that a test gave it.
    async fn exec(&self, id: &str, spec: &ExecSpec) -> Result<Session> {
        let what = || format!("run a program in container `{id}`");
        let mut world = self.world();
        match world.containers.get(id).map(Container::state) {
            Some(State::Running { .. }) => {}
            _ => return Err(KernelError::errno(what(), Errno::ESRCH as i32)),
        }
        let command = spec.argv.join(" ");
        let Program { takes, code, output } = world
            .programs
            .get(&command)
            .cloned()
            .ok_or_else(|| KernelError::errno(what(), Errno::ENOSYS as i32))?;
        world.executed.push((id.to_owned(), command));
        Ok(Session {
            stdin: None,
            stdout: Box::new(std::io::Cursor::new(output.into_bytes())),
            stderr: None,
            terminal: None,
            ended: Box::pin(async move {
                tokio::time::sleep(takes).await;
                Ok(code)
            }),
        })
    }

    async fn remove(&self, id: &str) -> Result<()> {
        let mut world = self.world();
        world.check_kernel("remove")?;
        if let Some(State::Running { .. }) = world.containers.get(id).map(Container::state) {
            return Err(KernelError::errno(format!("remove container `{id}`"), Errno::EBUSY as i32));
        }
        world.containers.remove(id);
        Ok(())
    }
}
