//! When this node asks for a claim that names no node (`--node-deployment`): all provisioners draw a delay.

use std::time::Duration;

use bowline_api::PersistentVolumeClaim;
use bowline_api::volume::{claim_class, claim_volume};

use super::decide::{is_open_to_bids, selected_node, wanted_from};
use super::memory::Bid;
use super::model::Key;
use super::role::Provisioner;

impl Provisioner {
    /// Draws the delay once; it grows with each claim update that was lost to another writer.
    pub(super) fn draw_delay(&self, key: &Key) {
        let (Key::Claim(uid), Some(own)) = (key, &self.settings.node) else { return };
        let open = self.claim(uid).is_some_and(|claim| self.may_bid(&claim));
        let record = self.memory.claim(uid);
        if !open || !own.immediate_binding || record.bid.is_some() {
            return;
        }
        let (base, max) = (self.base_delay, self.max_delay);
        let delay = base.saturating_mul(2_u32.saturating_pow(record.lost_bids)).min(max);
        let part = self.ports.host.random.next_u64() as f64 / u64::MAX as f64;
        let due = self.ports.host.uptime.uptime() + delay.saturating_sub(base.mul_f64(part));
        self.memory.change(uid, |record| record.bid = Some(Bid { due, room: false }));
    }

    fn may_bid(&self, claim: &PersistentVolumeClaim) -> bool {
        let class = claim_class(claim).and_then(|name| self.classes.named(name));
        claim_volume(claim).is_empty()
            && wanted_from(claim) == Some(&self.settings.driver)
            && selected_node(claim).is_none()
            && class.is_some_and(|class| is_open_to_bids(&class))
    }

    /// How long until this node asks for the claim.
    pub(super) fn bid_left(&self, uid: &str) -> Option<Duration> {
        let bid = self.memory.claim(uid).bid?;
        Some(bid.due.saturating_sub(self.ports.host.uptime.uptime())).filter(|left| !left.is_zero())
    }
}
