//! `bowline --help`: commands by what a reader is looking for.

use clap::Command;

use super::{Entry, Group};

const ONE_MACHINE: [&str; 3] = ["up", "demo", "node"];
const COMPONENTS: [&str; 1] = ["kube-apiserver"];

/// Adds the groups to the help of the whole binary; clap itself would only list its own commands, in one list.
pub fn with_groups(command: Command, table: &[Entry]) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\nOptions:\n{{options}}{{after-help}}",
        groups(&command, table)
    );
    command.help_template(template)
}

fn groups(command: &Command, table: &[Entry]) -> String {
    let commands: Vec<(String, String)> = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| (command.get_name().to_owned(), command.get_about().map(ToString::to_string)))
        .map(|(name, about)| (name, about.unwrap_or_default()))
        .collect();
    let named = |names: &[&str]| {
        commands.iter().filter(|(name, _)| names.contains(&name.as_str())).cloned().collect()
    };
    let programs = |group: Group| {
        let entries = table.iter().filter(move |entry| entry.group == group);
        entries.map(|entry| (entry.program.name.to_owned(), entry.program.about.to_owned()))
    };
    let mut components: Vec<_> = named(&COMPONENTS);
    components.extend(programs(Group::ClusterComponents));
    let grouped: Vec<&str> = ONE_MACHINE.into_iter().chain(COMPONENTS).collect();
    let tools = commands.iter().filter(|(name, _)| !grouped.contains(&name.as_str())).cloned().collect();
    let sections: [(&str, Vec<(String, String)>); 4] = [
        ("Everything on one machine", named(&ONE_MACHINE)),
        ("Cluster components", components),
        ("CSI sidecars", programs(Group::Sidecars).collect()),
        ("Drivers and tools", tools),
    ];
    let width = sections.iter().flat_map(|(_, lines)| lines).map(|(name, _)| name.len()).max().unwrap_or(0);
    let sections = sections.into_iter().filter(|(_, lines)| !lines.is_empty());
    sections.map(|(title, lines)| section(title, &lines, width)).collect::<Vec<_>>().join("\n")
}

fn section(title: &str, lines: &[(String, String)], width: usize) -> String {
    let lines: String = lines.iter().map(|(name, about)| format!("  {name:width$}  {about}\n")).collect();
    format!("{title}:\n{lines}")
}
