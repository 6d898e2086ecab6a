//! From Go's syntax to that of the `regex` crate. Nobody asks for groups, so none are captured.

use std::fmt::{self, Write};

/// How often anything may be repeated, repetitions of repetitions included.
const REPEAT_MAX: u32 = 1000;

/// What is wrong, and the part of the expression that shows it.
#[derive(Debug)]
pub struct Fault {
    why: &'static str,
    part: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.why, self.part)
    }
}

/// How often parts of a group are repeated at most: any of them, and the one that a repetition would be of.
#[derive(Default)]
struct Group {
    most: u32,
    last: Option<u32>,
}

pub struct Translator<'p> {
    pub whole: &'p str,
    /// Where in it the next character is.
    pub next: usize,
    pub out: String,
    /// Where the last name of a class ends, so that nobody looks for an end that is not there.
    pub last_name: Option<usize>,
    /// From the outermost to the innermost that is open.
    groups: Vec<Group>,
}

pub fn translate(pattern: &str) -> Result<String, Fault> {
    let mut translator = Translator {
        whole: pattern,
        next: 0,
        out: String::with_capacity(pattern.len()),
        last_name: pattern.rfind(":]"),
        groups: vec![Group::default()],
    };
    // Where a repetition began that ends right here.
    let mut repeated = None;
    while let Some(c) = translator.take() {
        repeated = translator.step(c, repeated)?;
    }
    if translator.groups.len() > 1 {
        return Err(translator.fault("missing closing )", 0));
    }
    Ok(translator.out)
}

impl<'p> Translator<'p> {
    pub fn rest(&self) -> &'p str {
        &self.whole[self.next..]
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn take(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.next += found.len_utf8();
        Some(found)
    }

    pub fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.next += if found { wanted.len_utf8() } else { 0 };
        found
    }

    /// A fault that what was read since `start` shows.
    pub fn fault(&self, why: &'static str, start: usize) -> Fault {
        Fault { why, part: self.whole[start..self.next].to_owned() }
    }

    /// The same with everything that follows.
    pub fn fault_to_the_end(&mut self, why: &'static str, start: usize) -> Fault {
        self.next = self.whole.len();
        self.fault(why, start)
    }

    /// A character that means itself.
    pub fn literal(&mut self, c: char) {
        if c.is_ascii_alphanumeric() || !c.is_ascii() {
            self.out.push(c);
        } else {
            _ = write!(self.out, "\\x{:02x}", u32::from(c));
        }
    }

    /// Something that can be repeated was written.
    pub fn written(&mut self, times: u32) {
        if let Some(group) = self.groups.last_mut() {
            group.most = group.most.max(times);
            group.last = Some(times);
        }
    }

    /// What begins with a character. The answer is where a repetition began, if it was one.
    fn step(&mut self, c: char, repeated: Option<usize>) -> Result<Option<usize>, Fault> {
        let start = self.next - c.len_utf8();
        match c {
            '*' | '+' | '?' => return self.repeat(start, repeated, 1).map(Some),
            '{' => {
                if let Some((low, high)) = self.count() {
                    let most = high.unwrap_or(low);
                    if low > REPEAT_MAX || most > REPEAT_MAX || low > most {
                        return Err(self.fault("invalid repeat count", start));
                    }
                    return self.repeat(start, repeated, most).map(Some);
                }
                self.literal(c);
                self.written(1);
            }
            '\\' => self.escape(start)?,
            '[' => self.class(start)?,
            '(' => self.open(start)?,
            ')' => self.close()?,
            '|' => {
                self.out.push(c);
                if let Some(group) = self.groups.last_mut() {
                    group.last = None;
                }
            }
            '.' | '^' | '$' => {
                self.out.push(c);
                self.written(1);
            }
            c => {
                self.literal(c);
                self.written(1);
            }
        }
        Ok(None)
    }

    /// What follows an opening brace, if it is `n}`, `n,}` or `n,m}`; else nothing is read.
    fn count(&mut self) -> Option<(u32, Option<u32>)> {
        let start = self.next;
        let found = self.number().and_then(|low| {
            if self.accept('}') {
                return Some((low, Some(low)));
            }
            if !self.accept(',') {
                return None;
            }
            if self.accept('}') {
                return Some((low, None));
            }
            let high = self.number()?;
            self.accept('}').then_some((low, Some(high)))
        });
        if found.is_none() {
            self.next = start;
        }
        found
    }

    /// Digits without zeros in front.
    fn number(&mut self) -> Option<u32> {
        let rest = self.rest();
        let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
        if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
            return None;
        }
        self.next += digits.len();
        // Larger than any number is too large as well.
        Some(digits.parse().unwrap_or(u32::MAX))
    }

    /// A sign of repetition has been read, up to the question mark that may follow.
    fn repeat(&mut self, start: usize, repeated: Option<usize>, times: u32) -> Result<usize, Fault> {
        let sign = &self.whole[start..self.next];
        self.out.push_str(sign);
        if self.accept('?') {
            self.out.push('?');
        }
        if let Some(before) = repeated {
            return Err(self.fault("invalid nested repetition operator", before));
        }
        let Some(last) = self.groups.last().and_then(|group| group.last) else {
            return Err(self.fault("missing argument to repetition operator", start));
        };
        let times = last.saturating_mul(times.max(1));
        if times > REPEAT_MAX {
            return Err(self.fault("invalid repeat count", start));
        }
        self.written(times);
        Ok(start)
    }

    fn open(&mut self, start: usize) -> Result<(), Fault> {
        if !self.accept('?') {
            self.out.push_str("(?:");
            self.groups.push(Group::default());
            return Ok(());
        }
        let rest = self.rest();
        let named = (rest.starts_with("P<") && rest.len() > 2) || (rest.starts_with('<') && rest.len() > 1);
        if named { self.name(start) } else { self.flags(start) }
    }

    /// `(?P<name>` or `(?<name>`.
    fn name(&mut self, start: usize) -> Result<(), Fault> {
        const FAULT: &str = "invalid named capture";
        let rest = self.rest();
        let Some((head, _)) = rest.split_once('>') else { return Err(self.fault_to_the_end(FAULT, start)) };
        self.next += head.len() + 1;
        let name = head.split_once('<').map_or("", |(_, name)| name);
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(self.fault(FAULT, start));
        }
        self.out.push_str("(?:");
        self.groups.push(Group::default());
        Ok(())
    }

    /// `(?flags)` for what follows, or `(?flags:` for what is inside.
    fn flags(&mut self, start: usize) -> Result<(), Fault> {
        let first = self.next;
        let (mut negated, mut dangling) = (false, false);
        while let Some(c) = self.take() {
            match c {
                'i' | 'm' | 's' | 'U' => dangling = false,
                '-' if !negated => (negated, dangling) = (true, true),
                ':' | ')' if !dangling => {
                    let flags = &self.whole[first..self.next];
                    // The crate does not know flags that say nothing.
                    if flags != ")" {
                        _ = write!(self.out, "(?{flags}");
                    }
                    if c == ':' {
                        self.groups.push(Group::default());
                    }
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(self.fault("invalid or unsupported Perl syntax", start))
    }

    fn close(&mut self) -> Result<(), Fault> {
        self.out.push(')');
        match self.groups.pop() {
            Some(group) if !self.groups.is_empty() => {
                self.written(group.most.max(1));
                Ok(())
            }
            _ => {
                self.next = self.whole.len();
                Err(self.fault("unexpected )", 0))
            }
        }
    }
}
