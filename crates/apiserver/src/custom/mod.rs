//! Custom resources: kinds that clients define.
//!
//! Reading order: `schema` (what a definition says of its objects), `prune` and `validate` (what the server does with
//! an object because of it), `rules` and `cel` (expressions), `kind` (all of it as a kind that the verbs can use),
//! `definition` (the kind CustomResourceDefinition itself), `follow` (how the set of kinds follows the store).

mod cel;
mod columns;
mod correlate;
mod definition;
mod deprecation;
mod embedded;
mod field_path;
mod follow;
mod go_type;
mod json_path;
mod kind;
mod lists;
mod object_meta;
mod parsed;
mod prune;
mod rules;
mod scale;
mod schema;
#[cfg(test)]
mod tests;
pub mod type_meta;
mod validate;
mod warnings;

pub use definition::{DefinitionKind, TABLE};
pub use follow::{Definitions, Writing, catch_up, follow};
pub use kind::CustomKind;
