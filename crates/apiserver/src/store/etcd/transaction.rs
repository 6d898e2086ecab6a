//! Parts of transactions.

use bowline_proto::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use bowline_proto::etcd::request_op::Request;
use bowline_proto::etcd::response_op::Response;
use bowline_proto::etcd::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, TxnResponse,
};
use bytes::Bytes;

/// Holds if a key was last changed at a revision; 0 is a key that does not exist.
pub fn last_changed(key: Bytes, revision: i64) -> Compare {
    equal(key, CompareTarget::Mod, TargetUnion::ModRevision(revision))
}

/// Holds if a key was written so often since it was created; 0 is a key that does not exist.
pub fn written(key: Bytes, times: i64) -> Compare {
    equal(key, CompareTarget::Version, TargetUnion::Version(times))
}

fn equal(key: Bytes, target: CompareTarget, value: TargetUnion) -> Compare {
    let result = CompareResult::Equal.into();
    Compare { result, target: target.into(), key, target_union: Some(value) }
}

pub fn put(request: PutRequest) -> RequestOp {
    RequestOp { request: Some(Request::RequestPut(request)) }
}

pub fn get(key: Bytes) -> RequestOp {
    let request = RangeRequest { key, ..RangeRequest::default() };
    RequestOp { request: Some(Request::RequestRange(request)) }
}

/// Answers with what was deleted.
pub fn delete(key: Bytes) -> RequestOp {
    let request = DeleteRangeRequest { key, prev_kv: true, ..DeleteRangeRequest::default() };
    RequestOp { request: Some(Request::RequestDeleteRange(request)) }
}

/// The one key that a `get` or `delete` of the transaction answered with.
pub fn answered(response: TxnResponse) -> Option<KeyValue> {
    response.responses.into_iter().find_map(|op| match op.response? {
        Response::ResponseRange(range) => range.kvs.into_iter().next(),
        Response::ResponseDeleteRange(deleted) => deleted.prev_kvs.into_iter().next(),
        Response::ResponsePut(_) => None,
    })
}
