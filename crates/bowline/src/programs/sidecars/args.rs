//! The command line: shared flags once, each controller's own, with its name before them where two have the same.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_machinery::flags::{Gate, Gates, SidecarArgs, duration};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::table::{CONTROLLERS, Controller, FLAGS, LIVENESSPROBE, TIMEOUTS};

const NAMES: &str = "controllers";
const PROBE_TIMEOUT: &str = "probe-timeout";

/// What was asked for.
#[derive(Debug)]
pub struct SidecarsArgs {
    pub shared: SidecarArgs,
    pub enabled: Vec<Enabled>,
    /// Set where livenessprobe is enabled.
    pub probe: Option<Duration>,
}

/// One enabled controller.
pub struct Enabled {
    pub controller: &'static Controller,
    pub timeout: Duration,
    /// Its own flags, as its program would be given them.
    pub words: Vec<String>,
    /// Its feature gates.
    pub gates: Gates,
}

impl std::fmt::Debug for Enabled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { controller, timeout, words, gates } = self;
        write!(f, "{} {timeout:?} {words:?} {gates:?}", controller.name)
    }
}

/// Every name that `--controllers` knows.
pub fn known() -> Vec<&'static str> {
    CONTROLLERS.iter().map(|controller| controller.name).chain([LIVENESSPROBE]).collect()
}

/// Flags that upstream's programs do not have under these names.
pub fn additions() -> Vec<&'static str> {
    let own = FLAGS.iter().map(|flag| flag.name.as_str());
    let timeouts = TIMEOUTS.iter().map(|(_, name)| name.as_str());
    own.chain(timeouts).chain([NAMES, PROBE_TIMEOUT]).collect()
}

impl Args for SidecarsArgs {
    fn augment_args(command: Command) -> Command {
        let names = Arg::new(NAMES)
            .long(NAMES)
            .value_name("NAMES")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .help(format!("What to run, separated by commas: {}", known().join(", ")));
        let probe = Arg::new(PROBE_TIMEOUT)
            .long(PROBE_TIMEOUT)
            .value_name("DURATION")
            .value_parser(duration)
            .default_value("3s")
            .help("Longest time for one probe of livenessprobe, connection included");
        let mut command = SidecarArgs::augment_args(command).arg(names).arg(probe);
        command = command.mut_arg("timeout", |argument| {
            argument.help("Longest time for one CSI call; the default is that of each controller's program")
        });
        for flag in FLAGS.iter() {
            let heading = flag.controller.name;
            let argument = flag.argument.clone().id(flag.id.as_str()).long(flag.name.as_str());
            command = command.arg(argument.help_heading(heading));
        }
        for (controller, name) in TIMEOUTS.iter() {
            let argument = Arg::new(name.as_str())
                .long(name.as_str())
                .value_name("DURATION")
                .value_parser(duration)
                .help("--timeout for this controller alone")
                .help_heading(controller.name);
            command = command.arg(argument);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SidecarsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let shared = SidecarArgs::from_arg_matches(matches)?;
        let names: Vec<&str> =
            matches.get_many::<String>(NAMES).into_iter().flatten().map(String::as_str).collect();
        let unknown = names.iter().find(|name| !known().contains(name));
        if let Some(name) = unknown {
            let text = format!("--controllers: `{name}` is none of {}\n", known().join(", "));
            return Err(clap::Error::raw(ErrorKind::InvalidValue, text));
        }
        let common = given(matches, "timeout").then_some(shared.timeout);
        let enabled = CONTROLLERS.iter().filter(|controller| names.contains(&controller.name));
        let enabled = enabled.map(|controller| {
            let gates = gates_of(controller, &shared.feature_gates);
            Ok(Enabled {
                controller,
                timeout: timeout_of(matches, controller, common, shared.timeout),
                words: words_of(matches, controller),
                gates: gates.map_err(|why| clap::Error::raw(ErrorKind::InvalidValue, format!("{why}\n")))?,
            })
        });
        let enabled: Vec<Enabled> = enabled.collect::<Result<_, clap::Error>>()?;
        let foreign = FLAGS.iter().find(|flag| {
            given(matches, &flag.id) && !enabled.iter().any(|one| one.controller.name == flag.controller.name)
        });
        if let Some(flag) = foreign {
            let (name, controller) = (&flag.name, flag.controller.name);
            let text = format!("--{name} belongs to {controller}, which is not in --controllers\n");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, text));
        }
        let probe = matches.get_one::<Duration>(PROBE_TIMEOUT).copied();
        let probe = probe.filter(|_| names.contains(&LIVENESSPROBE));
        Ok(Self { shared, enabled, probe })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl SidecarsArgs {
    /// What no single flag can say about itself.
    pub fn validate(&self) -> Result<(), String> {
        if self.enabled.is_empty() && self.probe.is_none() {
            return Err(format!(
                "--controllers is required: some of {}, separated by commas",
                known().join(", ")
            ));
        }
        if self.probe.is_some() && !self.shared.endpoint.serves_health() {
            return Err("livenessprobe needs --http-endpoint: it answers /healthz there".to_owned());
        }
        let gates: Vec<&str> = self.enabled.iter().flat_map(|one| one.controller.gates).copied().collect();
        let known = Gates::known(&gates)?.into_iter().map(|gate| Gate { switchable: true, ..gate });
        // Which values each takes was looked at one by one; what is left is a name that none of them knows.
        Gates::parse(&known.collect::<Vec<_>>(), &self.shared.feature_gates)?;
        let on_each_node = ["--node-deployment", "--node-deployment=true"];
        let distributed = |one: &Enabled| one.words.iter().any(|word| on_each_node.contains(&word.as_str()));
        if self.shared.election.leader_election && self.enabled.iter().any(distributed) {
            return Err("--node-deployment works on every node at once and --leader-election on one: give only one of them".into());
        }
        self.shared.endpoint.address()?;
        self.shared.election.leader_election().map(drop)
    }
}

/// Gates as the controller's own program would take them; what only others know is left to them.
fn gates_of(controller: &Controller, given: &[String]) -> Result<Gates, String> {
    let known = Gates::known(controller.gates)?;
    let pairs = given.iter().flat_map(|list| list.split(',')).map(str::trim);
    let ours = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default().trim_start_matches("kube:").trim();
        known.iter().any(|gate| gate.name == name)
    };
    let ours: Vec<String> = pairs.filter(ours).map(String::from).collect();
    Gates::parse(&known, &ours)
}

/// A controller's own timeout, the one for all, its program's default, or that of most programs.
fn timeout_of(
    matches: &ArgMatches,
    controller: &Controller,
    common: Option<Duration>,
    most: Duration,
) -> Duration {
    let flag = TIMEOUTS.iter().find(|(of, _)| of.name == controller.name);
    let own = flag.and_then(|(_, name)| matches.get_one::<Duration>(name).copied());
    own.or(common).or_else(|| controller.timeout()).unwrap_or(most)
}

fn words_of(matches: &ArgMatches, controller: &Controller) -> Vec<String> {
    let own = FLAGS.iter().filter(|flag| flag.controller.name == controller.name);
    let mut words: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (index, flag) in own.enumerate().filter(|(_, flag)| given(matches, &flag.id)) {
        let values = matches.get_raw(&flag.id).into_iter().flatten();
        let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
        let entry = words.entry(index).or_default();
        match flag.argument.get_action() {
            ArgAction::SetTrue => entry.push(format!("--{}", flag.own)),
            ArgAction::Append => entry.extend(values.iter().map(|value| format!("--{}={value}", flag.own))),
            _ => entry.push(format!("--{}={}", flag.own, values.join(","))),
        }
    }
    words.into_values().flatten().collect()
}

fn given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}
