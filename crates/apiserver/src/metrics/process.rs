//! What the kernel says of this process.

use std::path::Path;

use bowline_host::Disk;
use bowline_host::metrics::Text;

use super::families;
use super::page::single;

/// Linux counts processor time for user space in hundredths of a second, whatever the kernel ticks.
const TICKS: f64 = 100.0;

/// What cannot be found out, as on a fake machine, is left out.
pub async fn write(text: &mut Text, disk: &dyn Disk) {
    if let Some(stat) = read(disk, "/proc/self/stat").await
        && let Some(seconds) = processor_time(&stat)
    {
        single(text, &families::CPU, seconds);
    }
    if let Some(limits) = read(disk, "/proc/self/limits").await
        && let Some(files) = open_files_max(&limits)
    {
        single(text, &families::MAX_FILES, files);
    }
    if let Ok(open) = disk.list(Path::new("/proc/self/fd")).await {
        single(text, &families::OPEN_FILES, open.len());
    }
    let status = read(disk, "/proc/self/status").await.unwrap_or_default();
    for (family, field) in [(&families::RESIDENT, "VmRSS:"), (&families::VIRTUAL, "VmSize:")] {
        if let Some(bytes) = memory(&status, field) {
            single(text, family, bytes);
        }
    }
}

async fn read(disk: &dyn Disk, path: &str) -> Option<String> {
    let content = disk.read(Path::new(path)).await.ok()?;
    String::from_utf8(content).ok()
}

/// The name of the program stands in parentheses and may hold anything, so fields are counted behind it.
fn processor_time(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS)
}

fn open_files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn memory(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 100 2000000 500";
        assert_eq!(processor_time(stat), Some(3.0));
        assert_eq!(processor_time("42"), None);
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        assert_eq!(open_files_max(limits), Some(1024));
        assert_eq!(memory("Name:\tx\nVmRSS:\t   12 kB\n", "VmRSS:"), Some(12 * 1024));
        assert_eq!(memory("Name:\tx\n", "VmRSS:"), None);
    }
}
