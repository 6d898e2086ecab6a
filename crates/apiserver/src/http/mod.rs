//! What arrives and what leaves: paths, queries, media types, bodies.

pub mod accept;
pub mod body;
pub mod duration;
pub mod etag;
pub mod gzip;
pub mod indent;
pub mod pace;
pub mod path;
pub mod query;
pub mod yaml;
