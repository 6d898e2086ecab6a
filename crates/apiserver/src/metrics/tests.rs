use http::Method;

use crate::server::Server;
use crate::testing::{CONFIGMAPS, PODS, configmap, delete, from_outside, get, patch, post, server, watch};
use serde_json::json;

async fn page(server: &Server) -> String {
    let (head, body) = from_outside(server, Method::GET, "/metrics", &[]).await;
    assert_eq!(
        head.headers["content-type"],
        "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
    );
    String::from_utf8(body.to_vec()).unwrap()
}

fn assert_lines(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(page.lines().any(|found| found == *line), "{line} in {page}");
    }
}

#[tokio::test]
async fn requests_are_counted_by_what_they_are() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    get(&server, &format!("{CONFIGMAPS}/a")).await.ok();
    get(&server, &format!("{CONFIGMAPS}/none")).await;
    get(&server, "/api/v1/configmaps").await.ok();
    patch(&server, &format!("{CONFIGMAPS}/a?dryRun=All"), "merge", &json!({"data": {"b": "2"}})).await.ok();
    delete(&server, CONFIGMAPS, None).await.ok();
    get(&server, &format!("{PODS}/x/nonsense")).await;
    get(&server, "/livez/ping").await;
    get(&server, "/nonsense").await;
    let of = |code: u16, dry: &str, scope: &str, verb: &str| {
        format!(
            "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"{dry}\",group=\"\",resource=\"configmaps\",scope=\"{scope}\",subresource=\"\",verb=\"{verb}\",version=\"v1\"}} 1"
        )
    };
    let page = page(&server).await;
    assert_lines(
        &page,
        &[
            &of(201, "", "namespace", "POST"),
            &of(200, "", "resource", "GET"),
            &of(404, "", "resource", "GET"),
            &of(200, "", "cluster", "LIST"),
            &of(200, "All", "resource", "PATCH"),
            &of(200, "", "namespace", "DELETECOLLECTION"),
            "apiserver_request_total{code=\"200\",component=\"\",dry_run=\"\",group=\"\",resource=\"\",scope=\"\",subresource=\"/livez\",verb=\"GET\",version=\"\"} 1",
            // Of both gets.
            "apiserver_request_duration_seconds_count{component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"} 2",
            "apiserver_response_sizes_bucket{component=\"apiserver\",group=\"\",resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\",le=\"1000\"} 2",
            "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0",
            // The page itself is being asked for.
            "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1",
            "etcd_requests_total{operation=\"create\",type=\"configmaps\"} 1",
            "etcd_requests_total{operation=\"delete\",type=\"configmaps\"} 1",
            "etcd_request_errors_total{operation=\"create\",type=\"configmaps\"} 0",
            "apiserver_storage_objects{resource=\"configmaps\"} 0",
            "apiserver_storage_objects{resource=\"namespaces\"} 4",
            "apiserver_resource_objects{group=\"\",resource=\"namespaces\"} 4",
            "process_start_time_seconds 1767225600",
        ],
    );
    assert!(!page.contains("nonsense"), "what clients make up is no label");
}

#[tokio::test]
async fn a_watch_counts_as_open_until_its_end() {
    let server = server().await;
    let watching = watch(&server, "/api/v1/configmaps?watch=1", "*/*").await;
    let labels = "component=\"apiserver\",group=\"\",resource=\"configmaps\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"";
    assert_lines(&page(&server).await, &[&format!("apiserver_longrunning_requests{{{labels}}} 1")]);
    drop(watching);
    let page = page(&server).await;
    assert_lines(&page, &[&format!("apiserver_longrunning_requests{{{labels}}} 0")]);
    assert!(page.contains("verb=\"WATCH\",version=\"v1\"} 1\n"), "and as a request at its end");
}

/// Every family says what it is, once, before its samples.
#[tokio::test]
async fn the_page_is_well_formed() {
    let server = server().await;
    get(&server, CONFIGMAPS).await.ok();
    let page = page(&server).await;
    let mut families: Vec<&str> = Vec::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(!families.contains(&name), "{name} twice");
            families.push(name);
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(name.starts_with(families.last().unwrap()), "{line}");
            let value = line.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    assert!(families.len() > 10);
}
