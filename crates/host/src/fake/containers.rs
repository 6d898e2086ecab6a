//! Containers of the fake machine: records that run until somebody ends them.

use std::path::Path;

use async_trait::async_trait;
use jiff::Timestamp;
use nix::errno::Errno;
use tokio::sync::watch;

use super::tree::FsId;
use super::{FakeHost, World};
use crate::Clock;
use crate::containers::{ContainerSpec, Containers, ExecSpec, Exit, Session, State};
use crate::kernel::{KernelError, Result};

/// As the real door reports a container that never ran.
const START_ERROR: i32 = 128;

pub(super) struct Container {
    state: watch::Sender<State>,
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
        let state = match missing {
            Some(source) => {
                let error = format!("bind `{}`: no such file or directory", source.display());
                let exit = Exit { code: START_ERROR, signal: None, finished_at: now, error: Some(error) };
                State::Exited { started_at: now, exit }
            }
            None => State::Running { pid: self.next_pid, started_at: now },
        };
        self.next_pid += 1;
        let uses = spec.mounts.iter().flat_map(|m| self.tree.table.below(&m.source)).collect();
        let container = Container { state: watch::Sender::new(state.clone()), uses };
        self.containers.insert(spec.id.clone(), container);
        state
    }

    fn exists(&self, path: &Path) -> bool {
        let place = self.tree.follow(path).and_then(|path| self.tree.place(&path));
        place.is_ok_and(|place| self.tree.node(&place).is_some())
    }

    /// Ends a running container; one that has ended keeps its first exit.
    pub fn end_container(&mut self, id: &str, code: i32, error: Option<&str>, now: Timestamp) {
        let Some(container) = self.containers.get(id) else { return };
        let signal = (code > START_ERROR).then_some(code - START_ERROR);
        container.state.send_modify(|state| {
            if let State::Running { started_at, .. } = *state {
                let exit = Exit { code, signal, finished_at: now, error: error.map(Into::into) };
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

    async fn list(&self) -> Result<Vec<(String, State)>> {
        Ok(self.containers().into_iter().collect())
    }

    async fn state(&self, id: &str) -> Result<Option<State>> {
        Ok(self.world().containers.get(id).map(Container::state))
    }

    async fn wait(&self, id: &str) -> Result<Exit> {
        let gone = || KernelError::errno(format!("wait for container `{id}`"), Errno::ENOENT as i32);
        let mut states = self.world().containers.get(id).ok_or_else(gone)?.state.subscribe();
        loop {
            if let State::Exited { exit, .. } = &*states.borrow_and_update() {
                return Ok(exit.clone());
            }
            states.changed().await.map_err(|_| gone())?;
        }
    }

    async fn signal(&self, id: &str, signal: i32) -> Result<()> {
        let now = self.now();
        let mut world = self.world();
        world.check_kernel("signal")?;
        if matches!(signal, nix::libc::SIGTERM | nix::libc::SIGKILL | nix::libc::SIGINT) {
            world.end_container(id, START_ERROR + signal, None, now);
        }
        Ok(())
    }

    /// There are no programs on the fake machine.
    async fn exec(&self, id: &str, _spec: &ExecSpec) -> Result<Session> {
        Err(KernelError::errno(format!("run a program in container `{id}`"), Errno::ENOSYS as i32))
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
