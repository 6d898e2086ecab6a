//! What is wrong with an expression, with a mark below the place.

use super::ast::At;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub at: At,
    pub text: String,
}

impl Issue {
    pub fn new(at: At, text: impl Into<String>) -> Self {
        Self { at, text: text.into() }
    }
}

/// How many issues are told, and in how much text: each of them repeats its line.
const TOLD_MAX: usize = 100;
const TEXT_MAX: usize = 256 << 10;

/// One paragraph for each issue in the order of their places, as upstream prints them.
pub fn report(source: &str, issues: &[Issue]) -> String {
    let mut first: Vec<&Issue> = issues.iter().take(TOLD_MAX).collect();
    first.sort_by_key(|issue| issue.at);
    let mut told = String::new();
    for (index, issue) in first.iter().enumerate() {
        if told.len() > TEXT_MAX {
            return told + &truncated(issues.len() - index);
        }
        told.push_str(if index > 0 { "\n" } else { "" });
        told.push_str(&paragraph(source, issue));
    }
    let left = issues.len() - first.len();
    if left > 0 { told + &truncated(left) } else { told }
}

fn truncated(left: usize) -> String {
    format!("\n{left} more errors were truncated")
}

fn paragraph(source: &str, issue: &Issue) -> String {
    let before: Vec<char> = source.chars().take(issue.at).collect();
    let line = before.iter().filter(|c| **c == '\n').count();
    let column = before.iter().rev().take_while(|c| **c != '\n').count();
    let text = source.split('\n').nth(line).unwrap_or_default().replace('\t', " ");
    // Characters that are wider than a column get a wider dot.
    let dots: String = text.chars().take(column).map(|c| if c.len_utf8() > 1 { '．' } else { '.' }).collect();
    let wide = text.chars().nth(column).is_some_and(|c| c.len_utf8() > 1);
    let mark = if wide { '＾' } else { '^' };
    format!("ERROR: <input>:{}:{}: {}\n | {text}\n | {dots}{mark}", line + 1, column + 1, issue.text)
}
