//! One API server under test: its processes, and how to reach it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::Method;
use serde::Deserialize;

use super::client::{Kinds, Target};
use super::objects::PODS;
use super::process::Process;
use crate::memory;

/// The longest that a start may take.
const START: Duration = Duration::from_secs(120);
/// Between two looks at a server that is coming up.
const LOOK: Duration = Duration::from_millis(10);

/// How to start one process of a server.
pub struct Recipe {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub log: PathBuf,
}

pub struct Subject {
    pub name: &'static str,
    pub target: Target,
    recipes: Vec<Recipe>,
    processes: Vec<Process>,
}

impl Subject {
    pub async fn start(name: &'static str, target: Target, recipes: Vec<Recipe>) -> Result<Self> {
        let mut subject = Self { name, target, recipes, processes: Vec::new() };
        subject.launch()?;
        subject.ready().await?;
        Ok(subject)
    }

    fn launch(&mut self) -> Result<()> {
        let start = |recipe: &Recipe| Process::start(&recipe.program, &recipe.arguments, recipe.log.clone());
        self.processes = self.recipes.iter().map(start).collect::<Result<_>>()?;
        Ok(())
    }

    /// Until it says that it is ready. Looked at from outside: neither server tells.
    async fn ready(&mut self) -> Result<()> {
        let until = Instant::now() + START;
        while Instant::now() < until {
            for process in &mut self.processes {
                if let Some(why) = process.ended()? {
                    bail!("{} ended: {why}", self.name);
                }
            }
            if let Ok(mut client) = self.target.connect().await
                && client.send(Method::GET, "/readyz", Kinds::JSON, Vec::new()).await.is_ok()
            {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("{} was not ready after {} s", self.name, START.as_secs())
    }

    /// Of all its processes together.
    pub fn resident_kib(&self) -> Result<u64> {
        let of = |process: &Process| Ok(memory::resident(process.pid()?)?.now_kib);
        self.processes.iter().map(of).sum()
    }

    /// Stops everything and measures from the start of the first process to a list that has all pods.
    pub async fn restart(&mut self, pods: usize) -> Result<Duration> {
        self.stop().await?;
        let started = Instant::now();
        self.launch()?;
        self.ready().await?;
        let mut client = self.target.connect().await?;
        let list = client.send(Method::GET, PODS, Kinds::JSON, Vec::new()).await?;
        let took = started.elapsed();
        let found = count(&list)?;
        if found != pods {
            bail!("{} has {found} of {pods} pods after its restart", self.name);
        }
        Ok(took)
    }

    pub async fn stop(&mut self) -> Result<()> {
        for process in self.processes.iter_mut().rev() {
            process.stop().await?;
        }
        Ok(())
    }
}

/// How many objects are in a list.
pub fn count(list: &[u8]) -> Result<usize> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<serde::de::IgnoredAny>,
    }
    let list: List = serde_json::from_slice(list).context("read a list")?;
    Ok(list.items.len())
}
