//! Listens to a container: to what its init reports, and to what its program writes.

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::process::ChildStdout;

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;

use super::logs::{Lines, Log};
use super::shim::Message;

const STDOUT: usize = 0;
const STDERR: usize = 1;

/// As much as a pipe holds.
const CHUNK: usize = 64 << 10;

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// One pipe and what has been heard from it.
struct Ear {
    pipe: File,
    open: bool,
}

impl Ear {
    fn new(pipe: impl Into<OwnedFd>) -> Self {
        Self { pipe: File::from(pipe.into()), open: true }
    }

    /// Reads once; only after the kernel has said that there is something.
    fn hear<'b>(&mut self, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
        let length = match self.pipe.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(&[]),
            read => read?,
        };
        self.open = length > 0;
        Ok(&buffer[..length])
    }
}

pub(super) struct Attendant {
    reports: Ear,
    outputs: [(Ear, Lines); 2],
    log: Log,
    /// A report that has not come whole yet.
    report: Vec<u8>,
}

impl Attendant {
    pub fn new(reports: ChildStdout, stdout: PipeReader, stderr: PipeReader, log: Log) -> Self {
        Self {
            reports: Ear::new(reports),
            outputs: [(Ear::new(stdout), Lines::of("stdout")), (Ear::new(stderr), Lines::of("stderr"))],
            log,
            report: Vec::new(),
        }
    }

    /// Until init closes its side, which it does by ending.
    pub fn listen(&mut self, mut on_report: impl FnMut(Message) -> io::Result<()>) -> io::Result<()> {
        while self.reports.open {
            let [reports, stdout, stderr] = self.wait(None)?;
            self.write_down(stdout, stderr)?;
            if reports {
                let mut buffer = [0; 4 << 10];
                let heard = self.reports.hear(&mut buffer)?;
                self.report.extend_from_slice(heard);
                while let Some(end) = self.report.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.report.drain(..=end).collect();
                    on_report(serde_json::from_slice(&line)?)?;
                }
            }
        }
        Ok(())
    }

    /// What is in the pipes when everything inside has ended, and no more: a program can have given its output away, to
    /// a process of another container that never stops writing.
    pub fn finish(mut self) -> io::Result<()> {
        let [(stdout, _), (stderr, _)] = &self.outputs;
        let left = ioctl_fionread(&stdout.pipe)? + ioctl_fionread(&stderr.pipe)?;
        // A read takes a whole chunk if there is one. Once more, for the end of the pipes.
        for _ in 0..=left.div_ceil(CHUNK as u64) {
            let [_, stdout, stderr] = self.wait(Some(&AT_ONCE))?;
            if !stdout && !stderr {
                break;
            }
            self.write_down(stdout, stderr)?;
        }
        for (_, lines) in &mut self.outputs {
            let entries = lines.last(Timestamp::now());
            self.log.write(&entries);
        }
        Ok(())
    }

    fn write_down(&mut self, mut stdout: bool, stderr: bool) -> io::Result<()> {
        let mut errors = Vec::new();
        if stderr {
            errors = self.take(STDERR)?;
            // What was written to standard output before this shall stand before it: so it is looked for afterwards.
            [_, stdout, _] = self.wait(Some(&AT_ONCE))?;
        }
        if stdout {
            let entries = self.take(STDOUT)?;
            self.log.write(&entries);
        }
        self.log.write(&errors);
        Ok(())
    }

    /// What a pipe holds, as entries of the log.
    fn take(&mut self, output: usize) -> io::Result<Vec<u8>> {
        let (ear, lines) = &mut self.outputs[output];
        let mut buffer = vec![0; CHUNK];
        Ok(lines.take(ear.hear(&mut buffer)?, Timestamp::now()))
    }

    /// Which of init, standard output and standard error have something, or have ended.
    fn wait(&self, patience: Option<&Timespec>) -> io::Result<[bool; 3]> {
        let [(stdout, _), (stderr, _)] = &self.outputs;
        let ears = [&self.reports, stdout, stderr];
        let open: Vec<usize> = (0..ears.len()).filter(|number| ears[*number].open).collect();
        let mut fds: Vec<PollFd<'_>> =
            open.iter().map(|number| PollFd::new(&ears[*number].pipe, PollFlags::IN)).collect();
        match poll(&mut fds, patience) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = [false; 3];
        for (number, fd) in open.iter().zip(&fds) {
            ready[*number] = !fd.revents().is_empty();
        }
        Ok(ready)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A program can give its output away, to a process outside its container that never stops writing.
    #[test]
    fn a_writer_outside_the_container_does_not_keep_its_log_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut init = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        let (stdout, flood) = io::pipe().unwrap();
        const SIZE: usize = 1 << 20;
        rustix::pipe::fcntl_setpipe_size(&stdout, SIZE).unwrap();
        let (stderr, mut last) = io::pipe().unwrap();
        last.write_all(b"last words\n").unwrap();
        // They end when nobody can read any more.
        let flooding = [flood.try_clone().unwrap(), flood]
            .map(|mut flood| thread::spawn(move || while flood.write_all(&[b'x'; CHUNK]).is_ok() {}));
        while rustix::io::ioctl_fionread(&stdout).unwrap() < SIZE as u64 {
            thread::yield_now();
        }
        let log = Log::open(&path).unwrap();
        let attendant = Attendant::new(init.stdout.take().unwrap(), stdout, stderr, log);
        init.wait().unwrap();
        let (done, finished) = mpsc::channel();
        thread::spawn(move || done.send(attendant.finish()));
        finished.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        flooding.into_iter().for_each(|flooding| flooding.join().unwrap());
        assert!(std::fs::read_to_string(&path).unwrap().contains("stderr F last words\n"));
    }
}
