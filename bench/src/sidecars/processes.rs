//! The sidecars of one subject as processes: upstream's one by one, ours in one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::cluster::{Cluster, NAMESPACE};
use crate::apiserver::process::Process;
use crate::args::{SidecarsArgs, Subjects};
use crate::memory;

/// Upstream's own advice for large clusters is about this much.
const OPENED: [&str; 2] = ["--kube-api-qps=1000", "--kube-api-burst=2000"];
/// Of `bowline sidecars`.
const CONTROLLERS: &str = "--controllers=provisioner,attacher,resizer,snapshotter";

/// What processes have used.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub resident_kib: u64,
    pub cpu: Duration,
}

impl Usage {
    /// CPU in thousandths of a core over a time in which nothing was asked for.
    pub fn since(&self, before: &Self, time: Duration) -> String {
        let share = (self.cpu.saturating_sub(before.cpu)).as_secs_f64() / time.as_secs_f64();
        format!("{:.1} m", share * 1000.0)
    }
}

struct Sidecar {
    program: PathBuf,
    process: Process,
}

/// One replica of all sidecars.
pub struct Crew {
    sidecars: Vec<Sidecar>,
    pub attaches: bool,
}

impl Crew {
    pub fn start(
        cluster: &Cluster,
        program: &Path,
        args: &SidecarsArgs,
        subject: Subjects,
        replica: usize,
    ) -> Result<Self> {
        let mut crew = Self { sidecars: Vec::new(), attaches: true };
        for (name, path, words) in recipes(cluster, program, args, subject)? {
            let log = cluster.path(&format!("{name}-{replica}.log"));
            let process = Process::start(&path, &words, log)?;
            crew.sidecars.push(Sidecar { program: path, process });
        }
        crew.attaches = subject == Subjects::Bowline || args.csi_attacher.is_some();
        Ok(crew)
    }

    /// Each program once, however many of its roles run.
    pub fn size_mib(&self) -> Result<f64> {
        let mut programs: Vec<&PathBuf> = self.sidecars.iter().map(|sidecar| &sidecar.program).collect();
        programs.sort();
        programs.dedup();
        let size = |path: &PathBuf| Ok(std::fs::metadata(path).context("read the size of a program")?.len());
        let sizes: Result<Vec<u64>> = programs.into_iter().map(size).collect();
        Ok(sizes?.into_iter().sum::<u64>() as f64 / f64::from(1 << 20))
    }

    /// Of all processes together; a failure if one has ended.
    pub fn usage(&mut self) -> Result<Usage> {
        let mut usage = Usage { resident_kib: 0, cpu: Duration::ZERO };
        for sidecar in &mut self.sidecars {
            if let Some(why) = sidecar.process.ended()? {
                bail!("`{}` ended: {why}", sidecar.program.display());
            }
            let pid = sidecar.process.pid()?;
            usage.resident_kib += memory::resident(pid)?.now_kib;
            usage.cpu += cpu(pid)?;
        }
        Ok(usage)
    }

    pub async fn stop(self) -> Result<()> {
        self.end_by(Signal::TERM).await
    }

    pub async fn end_by(mut self, signal: Signal) -> Result<()> {
        for sidecar in &mut self.sidecars {
            sidecar.process.end_by(signal).await?;
        }
        Ok(())
    }
}

/// User and system time, in hundredths of a second as the kernel counts for everyone.
fn cpu(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read `{path}`"))?;
    let after = text.rsplit(") ").next().unwrap_or_default();
    let mut fields = after.split(' ').skip(11).map(|field| field.parse::<u64>().ok());
    match (fields.next().flatten(), fields.next().flatten()) {
        (Some(user), Some(system)) => Ok(Duration::from_millis((user + system) * 10)),
        _ => bail!("find the CPU time in `{path}`"),
    }
}

type Recipe = (&'static str, PathBuf, Vec<String>);

fn recipes(cluster: &Cluster, program: &Path, args: &SidecarsArgs, subject: Subjects) -> Result<Vec<Recipe>> {
    let shared = |user: &str, csi: bool| -> Result<Vec<String>> {
        let mut words = vec![
            format!("--kubeconfig={}", cluster.kubeconfig(user)?.display()),
            "--leader-election".to_owned(),
            format!("--leader-election-namespace={NAMESPACE}"),
        ];
        if csi {
            words.push(format!("--csi-address={}", cluster.path("csi.sock").display()));
        }
        Ok(words)
    };
    if subject == Subjects::Bowline {
        let sidecars =
            [vec!["sidecars".to_owned(), CONTROLLERS.to_owned()], shared("bowline-sidecars", true)?];
        let controller = [vec!["snapshot-controller".to_owned()], shared("snapshot-controller", false)?];
        return Ok(vec![
            ("bowline-sidecars", program.to_owned(), sidecars.concat()),
            ("bowline-snapshot-controller", program.to_owned(), controller.concat()),
        ]);
    }
    let programs = [
        ("csi-provisioner", Some(&args.csi_provisioner), true),
        ("csi-attacher", args.csi_attacher.as_ref(), true),
        ("csi-resizer", Some(&args.csi_resizer), true),
        ("csi-snapshotter", Some(&args.csi_snapshotter), true),
        ("snapshot-controller", Some(&args.snapshot_controller), false),
    ];
    let mut recipes = Vec::new();
    for (name, path, csi) in programs {
        let Some(path) = path else { continue };
        let mut words = shared(name, csi)?;
        if subject == Subjects::UpstreamOpened {
            words.extend(OPENED.map(String::from));
        }
        recipes.push((name, path.clone(), words));
    }
    Ok(recipes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_a_process_is_found() {
        let begun = cpu(std::process::id()).unwrap();
        let mut sum = 0u64;
        while cpu(std::process::id()).unwrap() == begun {
            sum = (0..100_000u64).fold(sum, u64::wrapping_add);
        }
        assert!(cpu(std::process::id()).unwrap() > begun, "{sum}");
    }

    #[test]
    fn idle_cpu_is_a_share_of_a_core() {
        let usage = |ms| Usage { resident_kib: 1, cpu: Duration::from_millis(ms) };
        assert_eq!(usage(150).since(&usage(50), Duration::from_secs(10)), "10.0 m");
    }
}
