//! Making table columns.

use std::borrow::Cow::Borrowed;

use super::Column;

/// The name of the object, first in nearly every table.
pub const NAME: Column = name("Name", "Name, unique among objects of this kind in its namespace.");
/// When the object was created, as an age.
pub const AGE: Column = text("Age", "Time since the object was created.");

const fn column(
    name: &'static str,
    type_: &'static str,
    format: &'static str,
    description: &'static str,
) -> Column {
    Column {
        name: Borrowed(name),
        type_: Borrowed(type_),
        format: Borrowed(format),
        description: Borrowed(description),
        priority: 0,
    }
}

/// A column that names an object.
pub const fn name(name: &'static str, description: &'static str) -> Column {
    column(name, "string", "name", description)
}

pub const fn text(name: &'static str, description: &'static str) -> Column {
    column(name, "string", "", description)
}

pub const fn number(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", "", description)
}

pub const fn flag(name: &'static str, description: &'static str) -> Column {
    column(name, "boolean", "", description)
}

pub const fn date(name: &'static str, description: &'static str) -> Column {
    column(name, "date", "", description)
}

/// The same column, shown only with `-o wide`.
pub const fn wide(mut column: Column) -> Column {
    column.priority = 1;
    column
}
