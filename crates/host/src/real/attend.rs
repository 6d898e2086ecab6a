//! Listens to a container: to what its init reports, and to what its program writes.

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::process::ChildStdout;

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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

    /// What is still in the pipes when everything inside has ended. It is not waited for more: nobody is left who
    /// could write, unless the program gave its output away.
    pub fn finish(mut self) -> io::Result<()> {
        loop {
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
