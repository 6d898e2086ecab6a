//! Versions of the CSI specification that a plugin claims.

use std::cmp::Ordering;
use std::fmt;

/// Dotted numbers, at least two, with an optional `v` in front and anything after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: Vec<u64>,
}

impl Version {
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("could not parse {text:?} as version");
        let digits = text.strip_prefix('v').unwrap_or(text);
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
        let numbers: Result<Vec<u64>, _> = digits[..end].split('.').map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.len() >= 2 => Ok(Self { numbers }),
            _ => Err(wrong()),
        }
    }

    pub fn major(&self) -> u64 {
        self.numbers[0]
    }

    fn at(&self, index: usize) -> u64 {
        self.numbers.get(index).copied().unwrap_or(0)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = self.numbers.len().max(other.numbers.len());
        (0..parts).map(|i| self.at(i).cmp(&other.at(i))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.numbers.iter().map(u64::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

/// The highest version that we can speak. Unreadable entries and majors above 1 are passed over.
pub fn highest(versions: &[String]) -> Result<Version, String> {
    let mut unreadable = String::from("<nil>");
    let mut best: Option<Version> = None;
    for text in versions {
        match Version::parse(text) {
            Ok(version) if version.major() > 1 => {}
            Ok(version) => best = Some(best.map_or(version.clone(), |b| b.max(version))),
            Err(error) => unreadable = error,
        }
    }
    match best {
        Some(version) if version.major() == 1 => Ok(version),
        Some(version) => {
            Err(format!("highest supported version reported by driver is {version}, must be v1.x"))
        }
        None => Err(format!(
            "could not find a highest supported version from versions ({versions:?}) reported by this driver: {unreadable}"
        )),
    }
}
