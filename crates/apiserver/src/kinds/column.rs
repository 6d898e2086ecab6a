//! Making table columns.

use super::Column;

/// The name of the object, first in nearly every table.
pub const NAME: Column =
    Column { format: "name", ..text("Name", "Name, unique among objects of this kind in its namespace.") };
/// When the object was created, as an age.
pub const AGE: Column = text("Age", "Time since the object was created.");

const fn column(name: &'static str, type_: &'static str, description: &'static str) -> Column {
    Column { name, type_, format: "", description, priority: 0 }
}

pub const fn text(name: &'static str, description: &'static str) -> Column {
    column(name, "string", description)
}

pub const fn number(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", description)
}

pub const fn flag(name: &'static str, description: &'static str) -> Column {
    column(name, "boolean", description)
}

pub const fn date(name: &'static str, description: &'static str) -> Column {
    column(name, "date", description)
}

/// The same column, shown only with `-o wide`.
pub const fn wide(column: Column) -> Column {
    Column { priority: 1, ..column }
}
