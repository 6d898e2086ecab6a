//! Generates the gRPC types from `proto/`, without protoc.

use std::error::Error;

use protox::prost_reflect::prost_types::{DescriptorProto, FileDescriptorSet};

const FILES: [&str; 3] = ["csi.proto", "etcd.proto", "pluginregistration.proto"];
const DIR: &str = "proto";

/// Maps that are safe to print. Every other map may carry a secret.
const PUBLIC_MAPS: [&str; 2] = ["manifest", "segments"];
/// Fields that are not maps and still may carry a secret; `value` is what etcd keeps, Secrets included.
const SECRET_FIELDS: [&str; 2] = ["mount_flags", "value"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    for file in FILES {
        println!("cargo:rerun-if-changed={DIR}/{file}");
    }
    let fds = protox::compile(FILES, [DIR])?;
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        // What a service does not implement is UNIMPLEMENTED, as the specification wants it.
        .generate_default_stubs(true)
        .btree_map(".")
        // Objects are passed on from the connection's buffer without a copy.
        .bytes(".etcdserverpb")
        .skip_debug(secret_messages(&fds))
        .compile_fds(fds)?;
    Ok(())
}

/// Paths of all messages that must not derive `Debug`.
///
/// Found from the protos, not listed by hand: a message added later has no `Debug` at all
/// until `src/secrets.rs` says what may be printed.
fn secret_messages(fds: &FileDescriptorSet) -> Vec<String> {
    let mut found = Vec::new();
    for file in &fds.file {
        for message in &file.message_type {
            visit(&format!(".{}", file.package()), message, &mut found);
        }
    }
    found
}

fn visit(scope: &str, message: &DescriptorProto, found: &mut Vec<String>) {
    let path = format!("{scope}.{}", message.name());
    let secret = message.field.iter().any(|field| {
        let is_map = message.nested_type.iter().any(|nested| {
            nested.options.as_ref().is_some_and(|options| options.map_entry())
                && field.type_name() == format!("{path}.{}", nested.name())
        });
        (is_map && !PUBLIC_MAPS.contains(&field.name())) || SECRET_FIELDS.contains(&field.name())
    });
    for nested in &message.nested_type {
        visit(&path, nested, found);
    }
    if secret {
        found.push(path);
    }
}
