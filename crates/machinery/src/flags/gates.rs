//! `--feature-gates=A=true,B=false`.

use std::collections::BTreeMap;

use super::values::boolean;

/// One gate: a line `Name default support` of a list such as [`super::files::KUBE_GATES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    pub name: String,
    pub default: bool,
    /// Whether it can be switched here; others only take their default.
    pub switchable: bool,
}

/// Every known gate with the value it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gates(BTreeMap<String, bool>);

impl Gates {
    /// Reads a list of known gates.
    pub fn known(texts: &[&str]) -> Result<Vec<Gate>, String> {
        let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| gate(line).ok_or_else(|| format!("wrong line in a list of feature gates: `{line}`")))
            .collect()
    }

    /// Applies what was given, in order, to the defaults. `kube:` before a name is upstream's own component.
    pub fn parse(known: &[Gate], given: &[String]) -> Result<Self, String> {
        let mut gates = Self(known.iter().map(|gate| (gate.name.clone(), gate.default)).collect());
        let pairs =
            given.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|pair| !pair.is_empty());
        for pair in pairs {
            let pair = pair.strip_prefix("kube:").unwrap_or(pair);
            let (name, value) =
                pair.split_once('=').ok_or_else(|| format!("missing bool value for `{pair}`"))?;
            let (name, value) = (name.trim(), value.trim());
            let value = boolean(value).map_err(|why| format!("invalid value of {name}={value}: {why}"))?;
            let gate = known.iter().find(|gate| gate.name == name).ok_or_else(|| unknown(known, name))?;
            if !gate.switchable && value != gate.default {
                let verb = if value { "on" } else { "off" };
                return Err(format!(
                    "feature gate {name} cannot be switched {verb}: this program only has its default, {}",
                    gate.default
                ));
            }
            gates.0.insert(name.to_owned(), value);
        }
        Ok(gates)
    }

    /// Whether a gate is on; one that is not known is off.
    pub fn enabled(&self, name: &str) -> bool {
        self.0.get(name).copied().unwrap_or(false)
    }
}

fn gate(line: &str) -> Option<Gate> {
    let mut words = line.split_whitespace();
    let (name, default, support) = (words.next()?, words.next()?, words.next()?);
    let switchable = match support {
        "switch" => true,
        "fixed" => false,
        _ => return None,
    };
    Some(Gate { name: name.to_owned(), default: boolean(default).ok()?, switchable })
}

fn unknown(known: &[Gate], name: &str) -> String {
    let near =
        known.iter().map(|gate| (strsim::damerau_levenshtein(&gate.name, name), gate.name.as_str())).min();
    match near {
        Some((distance, near)) if distance <= name.len() / 3 => {
            format!("unrecognized feature gate: {name}; did you mean {near}?")
        }
        _ => format!("unrecognized feature gate: {name}"),
    }
}
