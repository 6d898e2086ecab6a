//! The names that upstream gives its figures.

use bowline_host::metrics::Family;

macro_rules! families {
    ($($constant:ident = $name:literal $kind:literal $help:literal;)*) => {
        $(pub const $constant: Family = Family { name: $name, help: $help, kind: $kind };)*
    };
}

families! {
    REQUESTS = "apiserver_request_total" "counter" "[STABLE] Requests by verb, resource, scope and code.";
    DURATIONS = "apiserver_request_duration_seconds" "histogram" "[STABLE] Seconds from the request to its answer.";
    SIZES = "apiserver_response_sizes" "histogram" "[STABLE] Bytes of answers to reads.";
    IN_FLIGHT = "apiserver_current_inflight_requests" "gauge" "[STABLE] Requests that are being answered.";
    REJECTED = "apiserver_flowcontrol_rejected_requests_total" "counter" "[BETA] Requests refused with 429 by flow schema, priority level and reason.";
    REJECTED_CONNECTIONS = "bowline_apiserver_rejected_connections_total" "counter" "Connections closed because there were too many.";
    LONG_RUNNING = "apiserver_longrunning_requests" "gauge" "[STABLE] Open watches and other streams.";
    OBJECTS = "apiserver_storage_objects" "gauge" "[STABLE] Stored objects by resource.";
    RESOURCE_OBJECTS = "apiserver_resource_objects" "gauge" "[ALPHA] Stored objects by group and resource.";
    STORE_REQUESTS = "etcd_requests_total" "counter" "[ALPHA] Writes to the store by operation and resource.";
    STORE_ERRORS = "etcd_request_errors_total" "counter" "[ALPHA] Writes that the store refused or failed.";
    STORE_DURATIONS = "etcd_request_duration_seconds" "histogram" "[ALPHA] Seconds until a write is durable.";
    STORE_VERSION = "apiserver_watch_cache_resource_version" "gauge" "[ALPHA] The latest resourceVersion.";
    BUILD = "kubernetes_build_info" "gauge" "[BETA] The version that this server claims; always 1.";
    CPU = "process_cpu_seconds_total" "counter" "Seconds of processor time, user and system.";
    MAX_FILES = "process_max_fds" "gauge" "The most file descriptors that may be open.";
    OPEN_FILES = "process_open_fds" "gauge" "Open file descriptors.";
    RESIDENT = "process_resident_memory_bytes" "gauge" "Resident memory size in bytes.";
    STARTED = "process_start_time_seconds" "gauge" "When the process began, in seconds since 1970.";
    VIRTUAL = "process_virtual_memory_bytes" "gauge" "Virtual memory size in bytes.";
}
